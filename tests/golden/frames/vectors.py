"""Frames as the official software writes them, by name."""

from pathlib import Path

_HERE = Path(__file__).parent


def _read(version: str) -> dict[str, bytes]:
    lines = (_HERE / f"official-{version}.txt").read_text().splitlines()
    return {name: bytes.fromhex(value) for name, value in (line.split() for line in lines)}


OFFICIAL_5_5_0 = _read("5.5.0")
OFFICIAL_4_9_7 = _read("4.9.7")

# From the description of the protocol: version 401, opaque 1, language JAVA.
JSON_REQUEST = bytes.fromhex("00 00 00 80 00 00 00 7c") + (
    b'{"code":105,"extFields":{"topic":"T1"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":401}'
)
BINARY_REQUEST = bytes.fromhex(
    "00 00 00 26 01 00 00 22 00 69 00 01 91 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 0d"
    "00 05 74 6f 70 69 63 00 00 00 02 54 31"
)
BINARY_RESPONSE = bytes.fromhex(
    "00 00 00 21 01 00 00 1d 00 11 00 01 91 00 00 00 01 00 00 00 01 00 00 00 08"
    "6e 6f 20 72 6f 75 74 65 00 00 00 00"
)
