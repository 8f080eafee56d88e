"""Tables that are asked for in pieces (21, 201)."""

from collections.abc import Mapping
from typing import TypeVar

from emberq.errors import ProtocolError
from emberq.model.data_version import DataVersion
from emberq.protocol.bodies.codec import decode_body

V = TypeVar("V")


def is_version(text: str | None, version: DataVersion) -> bool:
    """Whether a request's JSON text is this version."""
    try:
        return text is not None and decode_body(DataVersion, text.encode()) == version
    except ProtocolError:
        return False


def page_of(
    table: Mapping[str, V], *, first: int | None, count_max: int | None, is_same_table: bool
) -> dict[str, V]:
    """A stretch of a table in the order of its names; without numbers all of it.

    `is_same_table`: the caller's earlier pieces are of the same version; otherwise begin anew.
    """
    if first is None and count_max is None:
        return dict(table)
    names = sorted(table)
    begin = max(0, first or 0) if is_same_table else 0
    end = len(names) if count_max is None else begin + max(0, count_max)
    return {name: table[name] for name in names[begin:end]}
