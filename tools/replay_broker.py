"""Play recorded conversations of the official broker to EmberQ's and print what differs.

    python -m tools.replay_broker [AREA …] [--only SCENARIO] [--all]

prints the differences that `tests/golden/broker/differences.py` does not explain; with `--all`
also those that it does.
"""

import argparse
import tempfile
from pathlib import Path

from tests.golden.broker.differences import ON_PURPOSE
from tests.golden.broker.replaying import DidNotStart, areas, replay, scenarios


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("areas", nargs="*", metavar="AREA", help=", ".join(areas()))
    options.add_argument("--only", metavar="SCENARIO")
    options.add_argument("--all", action="store_true", help="also what differs on purpose")
    chosen = options.parse_args()
    count = 0
    for area in chosen.areas or areas():
        for name, scenario in scenarios(area).items():
            if chosen.only in (None, name):
                count += show(area, name, scenario, is_all=chosen.all)
    print(f"{count} unexplained differences")
    return 1 if count else 0


def show(area: str, name: str, scenario: dict[str, object], *, is_all: bool) -> int:
    explained = ON_PURPOSE.get(area, {}).get(name, {})
    with tempfile.TemporaryDirectory(prefix="replay-", ignore_cleanup_errors=True) as home:
        try:
            differences = replay(scenario, Path(home), explained)
        except DidNotStart as error:
            differences = {"start": str(error)}
    unexplained = {step: text for step, text in differences.items() if step not in explained}
    stale = [step for step in explained if step not in differences]
    print(f"{area} / {name}: {len(unexplained)}")
    for step, text in (differences if is_all else unexplained).items():
        print(f"    {step}: {text}")
    for step in stale:
        print(f"    {step}: does not differ any more")
    return len(unexplained) + len(stale)


if __name__ == "__main__":
    raise SystemExit(main())
