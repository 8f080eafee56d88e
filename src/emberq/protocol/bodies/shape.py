"""What a body type is made of: decides which of the two ways its bytes may take."""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from msgspec import Struct
from msgspec.structs import fields

from emberq.protocol.fastjson_writer import Dialect


def is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Struct)


def without_none(kind: Any) -> Any:
    """`X` for `X | None`. Other unions do not occur in bodies."""
    if get_origin(kind) not in (Union, UnionType):
        return kind
    members = [member for member in get_args(kind) if member is not NoneType]
    if len(members) != 1:
        raise TypeError(f"{kind} is no type of a body member")
    return members[0]


def aliases_of(struct_type: type[Struct]) -> dict[str, str]:
    """Other wire names that peers use for a member: alias → wire name."""
    aliases: dict[str, str] = getattr(struct_type, "WIRE_ALIASES", {})
    return aliases


def is_plain(kind: Any, dialect: Dialect) -> bool:
    """Whether msgspec writes exactly what the dialect asks for."""
    for part in parts_of(kind):
        if part is Any or part is float:
            return False  # Java writes 1.0E10 where others write 10000000000.0
        if get_origin(part) is dict and not _is_plain_key(get_args(part)[0], dialect):
            return False
    return True


def is_readable_by_msgspec(kind: Any) -> bool:
    """Whether msgspec can read the strict form: it knows no objects as keys."""
    return not any(
        get_origin(part) is dict and is_struct(get_args(part)[0]) for part in parts_of(kind)
    )


def has_aliases(kind: Any) -> bool:
    return any(is_struct(part) and aliases_of(part) for part in parts_of(kind))


def parts_of(kind: Any) -> Iterator[Any]:
    """The type itself and every type that it is made of, each once."""
    seen: set[Any] = set()
    pending = [kind]
    while pending:
        part = without_none(pending.pop())
        if part in seen:
            continue
        seen.add(part)
        yield part
        if is_struct(part):
            pending.extend(member.type for member in fields(part))
        else:
            pending.extend(get_args(part))


def _is_plain_key(key: Any, dialect: Dialect) -> bool:
    return key is str or (key is int and dialect is Dialect.STRICT)
