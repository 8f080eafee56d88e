"""Values made by the official software; README.md says how."""

from pathlib import Path


def _read(version: str) -> dict[str, str]:
    text = (Path(__file__).parent / f"{version}.txt").read_text()
    pairs = (line.partition(" ") for line in text.splitlines())
    return {name: value for name, _, value in pairs}


OFFICIAL_5_5_0 = _read("official-5.5.0")
OFFICIAL_4_9_7 = _read("official-4.9.7")
OFFICIAL_4_9_8 = _read("official-4.9.8")
