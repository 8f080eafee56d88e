"""The binary header of a frame (type byte 1)."""

from struct import Struct as Layout
from struct import error as LayoutError

from emberq.errors import ProtocolError
from emberq.protocol.codes import unwrap_short_code
from emberq.protocol.command import Command
from emberq.protocol.languages import Language

# code, language, version, opaque, flag, remark length
_HEAD = Layout("!hBhiii")
_LENGTH = Layout("!i")
_KEY_LENGTH = Layout("!h")
_KEY_LENGTH_MAX = (1 << 15) - 1


def encode_binary_header(command: Command) -> bytes:
    """Raises ProtocolError for a field name that the format cannot hold."""
    remark = (command.remark or "").encode("utf-8", "replace")
    entries = b"".join(_encode_entry(name, value) for name, value in (command.fields or {}).items())
    head = _HEAD.pack(
        _as_short(command.code),
        _language_code(command.language),
        _as_short(command.version),
        command.opaque,
        command.flag,
        len(remark),
    )
    return b"".join((head, remark, _LENGTH.pack(len(entries)), entries))


def decode_binary_header(header: bytes | memoryview) -> Command:
    """Raises ProtocolError when a length points outside of the header.

    Bytes that are not UTF-8 become U+FFFD, as on the Java side."""
    header = bytes(header)
    try:
        code, language, version, opaque, flag, remark_size = _HEAD.unpack_from(header)
        position = _HEAD.size + _checked(remark_size, header)
        remark = header[_HEAD.size : position].decode("utf-8", "replace")
        (entries_size,) = _LENGTH.unpack_from(header, position)
        position += _LENGTH.size
        end = position + _checked(entries_size, header)
        if end > len(header):
            raise ProtocolError("the field block is longer than the header")
        fields = _decode_entries(header, position, end) if entries_size else None
    except LayoutError as error:
        raise ProtocolError(f"torn binary header: {error}") from None
    return Command(
        code=unwrap_short_code(code),
        fields=fields,
        flag=flag,
        language=Language.name_of(language),
        opaque=opaque,
        remark=remark or None,
        version=version,
    )


def _decode_entries(header: bytes, position: int, end: int) -> dict[str, str]:
    """The last of two equal keys wins; an empty key or value counts as absent."""
    fields: dict[str, str] = {}
    while position < end:
        (key_size,) = _KEY_LENGTH.unpack_from(header, position)
        position += _KEY_LENGTH.size
        key = header[position : position + _checked(key_size, header)]
        position += key_size
        (value_size,) = _LENGTH.unpack_from(header, position)
        position += _LENGTH.size
        value = header[position : position + _checked(value_size, header)]
        position += value_size
        if key and value:
            name = key.decode("utf-8", "replace")
            fields[name] = value.decode("utf-8", "replace")
    if position != end:
        raise ProtocolError("a field reaches beyond the field block")
    return fields


def _encode_entry(name: str, value: str) -> bytes:
    key, content = name.encode("utf-8", "replace"), value.encode("utf-8", "replace")
    if len(key) > _KEY_LENGTH_MAX:
        raise ProtocolError(f"a field name of {len(key)} bytes does not fit the binary header")
    return b"".join((_KEY_LENGTH.pack(len(key)), key, _LENGTH.pack(len(content)), content))


def _checked(size: int, header: bytes) -> int:
    if not 0 <= size <= len(header):
        raise ProtocolError(f"a length of {size} in a header of {len(header)} bytes")
    return size


def _as_short(number: int) -> int:
    """Java's narrowing: codes above 32767 keep their low 16 bits."""
    return ((number + 0x8000) & 0xFFFF) - 0x8000


def _language_code(language: str | int | None) -> int:
    if isinstance(language, int):
        return language & 0xFF
    return Language.code_of(language)
