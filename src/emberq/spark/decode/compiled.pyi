from typing import Any

INTERFACE: int

def find_parts(content: Any) -> tuple[int, bytearray] | None: ...
def numbers(content: Any, positions: Any, width: int) -> bytearray: ...
def times(content: Any, positions: Any) -> tuple[bytearray, bytearray | None]: ...
def slices(content: Any, starts: Any, ends: Any) -> tuple[bytearray, bytearray]: ...
def split_items(
    content: Any, starts: Any, ends: Any
) -> tuple[bytearray, bytearray, int, int, bytearray]: ...
def find_values(
    content: Any, firsts: Any, name_starts: Any, name_ends: Any, value_ends: Any, name: bytes
) -> tuple[bytearray | None, bytearray, bytearray]: ...
def usual_rows(
    content: bytes,
    first: int,
    stop: int,
    refused_flags: int,
    numbers: tuple[tuple[int, int], ...],
    times: tuple[int, ...],
    has_body: bool,
    has_map: bool,
    names: tuple[bytes, ...],
) -> tuple[int, list[Any], list[Any], Any, Any, list[Any]] | None: ...
