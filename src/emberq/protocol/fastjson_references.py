"""Puts the object in place of a `{"$ref":"$.path"}` that fastjson writes for a repeated object."""

import re
from typing import Any

from emberq.errors import ProtocolError

REFERENCE_KEY = "$ref"
REFERENCE_COUNT_MAX = 10_000
# References share objects: a few nested ones can stand for a tree larger than any memory.
EXPANDED_VALUE_COUNT_MAX = 2_000_000

_STEP = re.compile(r"\.((?:[^.\[\\]|\\.)+)|\[([0-9]{1,9})\]|\[(['\"])(.*?)\3\]", re.DOTALL)


def resolve_references(root: Any, *, depth_max: int) -> Any:
    """Replace references in place and return `root`.

    Raises:
        ProtocolError: for a path that leads nowhere, a cycle (every reference to an ancestor is
            one: "$", "..", "@") or a tree that would expand past the limits.
    """
    references = list(_find_references(root))
    if len(references) > REFERENCE_COUNT_MAX:
        raise ProtocolError(f"JSON with more than {REFERENCE_COUNT_MAX} references")
    for container, key, path in references:
        container[key] = _follow(root, path)
    if references or _is_reference(root):
        _Expansion(depth_max).measure(root, 0)
    return root


def _is_reference(value: Any) -> bool:
    """Other texts under this key are ordinary members, as for official readers."""
    if type(value) is not dict or len(value) != 1:
        return False
    path = value.get(REFERENCE_KEY)
    return isinstance(path, str) and (path in ("$", "..", "@") or path.startswith(("$.", "$[")))


def _find_references(root: Any) -> "list[tuple[Any, Any, str]]":
    found = []
    pending = [root]
    while pending:
        container = pending.pop()
        entries: Any = ()
        if type(container) is dict:
            entries = list(container.items())
        elif type(container) is list:
            entries = enumerate(container)
        for key, value in entries:
            if _is_reference(value):
                found.append((container, key, value[REFERENCE_KEY]))
            elif type(value) in (dict, list):
                pending.append(value)
    return found


def _follow(root: Any, path: str) -> Any:
    target = root
    at = 1
    if not path.startswith("$"):
        raise ProtocolError(f"JSON reference {path[:80]!r} to an ancestor")
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ProtocolError(f"JSON reference {path[:80]!r} is not a path")
        at = step.end()
        name, index, _, quoted = step.groups()
        try:
            if index is not None and type(target) is list:
                target = target[int(index)]
            else:
                target = target[_plain(name) if name is not None else (index or quoted)]
        except (KeyError, IndexError, TypeError):
            raise ProtocolError(f"JSON reference {path[:80]!r} leads nowhere") from None
    return target


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name, flags=re.DOTALL)


class _Expansion:
    """Counts the values of the tree that shared objects stand for, and finds cycles."""

    def __init__(self, depth_max: int) -> None:
        self._depth_max = depth_max
        self._measured: dict[int, tuple[int, int]] = {}
        self._open: set[int] = set()

    def measure(self, value: Any, depth: int) -> tuple[int, int]:
        """Count and height of what hangs below `value`."""
        if type(value) not in (dict, list):
            return 1, 0
        known = self._measured.get(id(value))
        if known is None:
            known = self._measure_children(value, depth)
            self._measured[id(value)] = known
        if known[0] > EXPANDED_VALUE_COUNT_MAX or depth + known[1] > self._depth_max:
            raise ProtocolError("JSON references expand past the limit")
        return known

    def _measure_children(self, value: Any, depth: int) -> tuple[int, int]:
        if id(value) in self._open or depth >= self._depth_max:
            raise ProtocolError("JSON references form a cycle")
        if _is_reference(value):
            raise ProtocolError("JSON reference to another reference")
        self._open.add(id(value))
        count, height = 1, 0
        for child in value.values() if type(value) is dict else value:
            child_count, child_height = self.measure(child, depth + 1)
            count += child_count
            height = max(height, child_height + 1)
        self._open.discard(id(value))
        return count, height
