"""Plays recorded conversations to a broker of EmberQ and says where it answers otherwise.

What may differ anywhere:

- tables that are hash sets in the official program come in any order, and so do properties;
- a remark that is a Java exception with its stack frame: the code counts, not the text;
- the facts of the running broker (28): the keys count; its configuration (26): the values of
  the keys that EmberQ has.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.golden.broker.conversation import Conversation
from tests.golden.broker.playing import (
    EVENTUALLY_TIMEOUT_S,
    EXPLAINED_TIMEOUT_S,
    NeverCameTrue,
    play,
)
from tests.interop.harness.ports import free_port_with

RECORDINGS = Path(__file__).parent
VERSION = "5.5.0"
RUNTIME_INFO, GET_CONFIG = 28, 26

JAVA_EXCEPTION = re.compile(
    r"^(java|io\.netty|org\.apache|com\.alibaba)\.[\w.$]+(Exception|Error)\b|^Cannot invoke \""
)
# Settings that name the machine, or that the replay itself chooses.
LOCAL_SETTINGS = re.compile(r"(?i)path|home|addr|nums$|hostname|ip\d$|queue(num|id)|directory")

Scenario = dict[str, Any]
Shape = dict[str, Any]


class DidNotStart(Exception):
    """The broker ended before it was ready; the text is what it said."""


def areas() -> list[str]:
    return sorted(path.stem.partition("-")[2] for path in RECORDINGS.glob(f"{VERSION}-*.json"))


def scenarios(area: str) -> dict[str, Scenario]:
    recorded = json.loads((RECORDINGS / f"{VERSION}-{area}.json").read_text())
    return {scenario["name"]: scenario for scenario in recorded["scenarios"]}


@contextmanager
def emberq_broker(home: Path, config: dict[str, str]) -> Iterator[int]:
    """The port of a fresh broker with the settings that the recorded one had."""
    port = free_port_with(-2, 1)
    settings = {"brokerClusterName": "C1", "brokerName": "brk-a", "brokerId": "0"}
    settings |= {"brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1", "listenPort": str(port)}
    settings |= {"storePathRootDir": f"{home}/store", "mappedFileSizeCommitLog": str(16 << 20)}
    settings |= {"mappedFileSizeConsumeQueue": "120000", "maxIndexNum": "100000"}
    settings |= {"maxHashSlotNum": "25000", "diskMaxUsedSpaceRatio": "99"}
    settings |= {"enablePropertyFilter": "true"} | config
    file = home / "broker.conf"
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "emberq", "broker", "-c", str(file)]
    environment = os.environ | {"HOME": str(home), "ROCKETMQ_HOME": str(home), "TZ": "UTC"}
    environment.pop("NAMESRV_ADDR", None)
    with (
        (home / "broker.log").open("w") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            if "boot success" not in process.stdout.readline():
                raise DidNotStart((home / "broker.log").read_text())
            yield port
        finally:
            process.kill()


def replay(scenario: Scenario, home: Path, explained: Container[str] = ()) -> dict[str, str]:
    """Step → what differs; of `explained` steps it is known that they do."""
    differences = {}
    with emberq_broker(home, scenario["config"]) as port:
        talk = Conversation(port, home)
        try:
            for step in scenario["steps"]:
                is_explained = step["name"] in explained
                if found := difference(step, talk, is_explained=is_explained):
                    differences[step["name"]] = found
        finally:
            talk.close_all()
    return differences


def difference(step: Shape, talk: Conversation, *, is_explained: bool) -> str | None:
    timeout_s = EXPLAINED_TIMEOUT_S if is_explained else EVENTUALLY_TIMEOUT_S
    expected = step.get("answer", step.get("frame"))

    def is_same(shape: Shape) -> bool:
        return expected is not None and not shape_difference(step, shape, expected)

    try:
        seen = play(step, talk, is_same if step["kind"] == "eventually" else None, timeout_s)
    except NeverCameTrue:
        seen = play(step, talk, None)
    except (ConnectionError, KeyError) as error:  # a step before it failed
        return f"could not be played: {error!r}"
    if "is_closed" in seen:
        return None if seen["is_closed"] == step["is_closed"] else "closed or open"
    found = seen.get("answer", seen.get("frame"))
    if found is None or expected is None:
        return None if found is expected else f"{short(found)} instead of {short(expected)}"
    return shape_difference(step, found, expected)


def shape_difference(step: Shape, found: Shape, expected: Shape) -> str | None:
    code = step.get("request", {}).get("code")
    found, expected = comparable(found, code), comparable(expected, code)
    if JAVA_EXCEPTION.match(expected.get("remark", "")):
        expected["remark"] = found["remark"] = "of an exception" if "remark" in found else ""
    if code == GET_CONFIG and "text" in found and "text" in expected:
        found["text"], expected["text"] = shared_settings(found["text"], expected["text"])
    parts = [
        f"{name}: {in_short(found.get(name), expected.get(name))}"
        for name in sorted({*found, *expected})
        if found.get(name) != expected.get(name)
    ]
    return "; ".join(parts) or None


def in_short(found: Any, expected: Any) -> str:
    """Of lists only what the other one does not have."""
    if isinstance(found, list) and isinstance(expected, list):
        found, expected = (
            [entry for entry in found if entry not in expected],
            [entry for entry in expected if entry not in found],
        )
    return f"{short(found)} instead of {short(expected)}"


def comparable(shape: Shape, code: int | None) -> Shape:
    result = dict(shape)
    if "json" in result:
        result["json"] = unordered(result["json"])
        if code == RUNTIME_INFO:
            result["json"] = sorted(result["json"]["table"])
    return result


def unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: unordered(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return sorted((unordered(entry) for entry in value), key=json.dumps)
    return value


def shared_settings(found: str, expected: str) -> tuple[str, str]:
    """The lines of keys that both have and that do not depend on the machine."""
    ours, official = settings_of(found), settings_of(expected)
    keys = sorted(key for key in ours.keys() & official.keys() if not LOCAL_SETTINGS.search(key))
    differing = [key for key in keys if ours[key] != official[key]]
    return tuple(  # type: ignore[return-value]  # two texts make a pair
        "\n".join(f"{key}={settings[key]}" for key in differing) for settings in (ours, official)
    )


def settings_of(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if line)
    return {key: value for key, _, value in pairs}


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 1500 else text[:1500] + " …"
