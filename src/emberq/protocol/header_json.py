"""The JSON header of a frame (type byte 0): exact writing, tolerant reading."""

from typing import Any

import msgspec

from emberq.errors import ProtocolError
from emberq.protocol.command import Command

_decode_command = msgspec.json.Decoder(Command).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder(order=None).encode

_INT32_MIN, _INT32_MAX = -(1 << 31), (1 << 31) - 1


def encode_json_header(command: Command) -> bytes:
    """Keys alphabetical and compact, absent values left out: the text the Java side writes."""
    fields = command.fields
    remark = command.remark
    language = command.language
    # The names that peers use are identifiers, which need no escapes.
    is_plain = isinstance(language, str) and language.isidentifier()
    language_text = f'"{language}"' if is_plain else _json(language)
    extra = "" if fields is None else f'"extFields":{_json(fields)},'
    note = "" if remark is None else f'"remark":{_json(remark)},'
    return (
        f'{{"code":{command.code:d},{extra}"flag":{command.flag},"language":{language_text},'
        f'"opaque":{command.opaque},{note}"serializeTypeCurrentRPC":"JSON",'
        f'"version":{command.version}}}'
    ).encode()


def _json(value: str | int | dict[str, str] | None) -> str:
    try:
        return _encode(value).decode()
    except UnicodeEncodeError:  # a lone surrogate, for instance in a remark that quotes input
        if isinstance(value, dict):
            return _json({_without_surrogates(k): _without_surrogates(v) for k, v in value.items()})
        return _json(_without_surrogates(str(value)))


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def decode_json_header(header: bytes | memoryview) -> Command:
    """Read a header; peers that bend the types (numbers as field values) are understood too.

    Bytes that are not UTF-8 become U+FFFD, as on the Java side.

    Raises:
        ProtocolError: not a JSON object, or a number that is none.
    """
    try:
        return _decode_command(header)
    except msgspec.ValidationError:
        return _decode_leniently(header)
    except UnicodeDecodeError:
        return decode_json_header(bytes(header).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"header is not JSON: {error}") from None


def _decode_leniently(header: bytes | memoryview) -> Command:
    try:
        members = _decode_any(header)
    except UnicodeDecodeError:
        return _decode_leniently(bytes(header).decode("utf-8", "replace").encode())
    except (msgspec.DecodeError, RecursionError) as error:
        raise ProtocolError(f"header is not JSON: {error}") from None
    if not isinstance(members, dict):
        raise ProtocolError("header is not a JSON object")
    fields = members.get("extFields")
    if fields is not None and not isinstance(fields, dict):
        raise ProtocolError("extFields is not a JSON object")
    language = members.get("language", "JAVA")
    remark = members.get("remark")
    return Command(
        code=_number(members, "code"),
        fields=None if fields is None else _texts(fields),
        flag=_number(members, "flag"),
        language=language if type(language) in (str, int) else None,
        opaque=_number(members, "opaque"),
        remark=None if remark is None else _text(remark),
        version=_number(members, "version"),
    )


def _number(members: dict[str, Any], name: str) -> int:
    value = members.get(name)
    if value is None:
        return 0
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise ProtocolError(f"header field {name} is not a number") from None
    if not _INT32_MIN <= number <= _INT32_MAX:
        raise ProtocolError(f"header field {name} does not fit in 32 bits")
    return number


def _texts(fields: dict[str, Any]) -> dict[str, str]:
    return {name: _text(value) for name, value in fields.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return _encode(value).decode()
    except RecursionError:
        raise ProtocolError("header field is nested too deeply") from None
