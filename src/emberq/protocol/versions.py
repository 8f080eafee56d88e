"""Release versions as the ordinals that travel in every command.

The official list gives a snapshot and a release to each version, so a release is an odd number
and its snapshot the even one before: V4_9_4_SNAPSHOT = 400, V4_9_4 = 401.
"""

from functools import cache
from typing import Final

from emberq.errors import ProtocolError

V3_0_7_SNAPSHOT: Final = 28
V3_0_11: Final = 37
V3_1_8_SNAPSHOT: Final = 62
V3_4_9: Final = 121
V4_0_0: Final = 213
V4_1_0_SNAPSHOT: Final = 232
V4_5_2: Final = 317
V4_9_3: Final = 399
V4_9_4: Final = 401
V4_9_7: Final = 407
V5_0_0: Final = 413
V5_3_1: Final = 475
V5_5_0: Final = 513

# The version that we answer as.
CURRENT: Final = V5_5_0

# The list ends here; whatever is above has one name.
HIGHER_VERSION: Final = 612
HIGHER_VERSION_NAME: Final = "HIGHER_VERSION"


def version_name(ordinal: int) -> str:
    """The official name of a version; a negative number, which nobody should send, has none."""
    if ordinal < 0:
        return "UNKNOWN"
    return _names()[min(ordinal, HIGHER_VERSION)]


def version_ordinal(name: str) -> int:
    """The number of a version by its official name, for instance `V4_9_4_SNAPSHOT`.

    Raises:
        ProtocolError: there is no such version.
    """
    try:
        return _names().index(name)
    except ValueError:
        raise ProtocolError(f"no version is called {name!r}") from None


@cache
def _names() -> tuple[str, ...]:
    """All names by ordinal: what came before 3.0.0, then pairs of snapshot and release."""
    first = ["SNAPSHOT", "ALPHA1", *(f"BETA{n}" for n in range(1, 6))]
    first += [f"BETA{n}{suffix}" for n in range(6, 10) for suffix in ("_SNAPSHOT", "")]
    names = [f"V3_0_0_{stage}" for stage in (*first, "FINAL")]
    releases = [f"V3_0_{patch}" for patch in range(1, 16)]
    releases += [f"V3_{minor}_{patch}" for minor in (1, 2) for patch in range(10)]
    releases += [f"V3_{minor}_{patch}" for minor in range(3, 10) for patch in range(1, 10)]
    releases += [f"V4_{minor}_{patch}" for minor in range(10) for patch in range(10)]
    releases += [f"V5_{minor}_{patch}" for minor in range(10) for patch in range(10)]
    for release in releases:
        names += (f"{release}_SNAPSHOT", release)
    return (*names, HIGHER_VERSION_NAME)
