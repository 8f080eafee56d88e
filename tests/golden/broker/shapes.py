"""An answer as it is recorded: without what differs from run to run, and no longer than needed."""

import base64
import hashlib
import json
import struct
import zlib
from typing import Any

from tests.golden.broker.conversation import Conversation, is_near_now
from tests.golden.broker.loose_json import NotJson, parse_loose_json
from tests.golden.nameserver.conversation import Answer

BORN_MS = 1_700_000_000_123  # what the scenarios send; left out of the recordings
MAGIC = {0xDAA320A7: ">b", 0xDAA320AB: ">h"}
SHOWN_BODY_MAX = 200


def shaped(frame: Answer, talk: Conversation) -> dict[str, Any]:
    """Code, flag, remark, fields and body of a frame from the broker."""
    header = json.loads(frame.header_text)
    shape: dict[str, Any] = {"code": header["code"]}
    if header["flag"] != 1:
        shape["flag"] = header["flag"]
    if header.get("remark") is not None:
        shape["remark"] = talk.normalise(header["remark"])
    if "extFields" in header:
        fields = header["extFields"]
        shape["extFields"] = {key: _shaped_field(key, fields[key], talk) for key in sorted(fields)}
    return shape | shaped_body(frame.body, talk)


def _shaped_field(name: str, value: str, talk: Conversation) -> str:
    if name == "recallHandle":  # the time in it differs from run to run
        value = base64.urlsafe_b64decode(value).decode()
    text = talk.normalise(value)
    if name == "properties":  # of a pushed reply: in the order of a hash table
        return "".join(f"{item}\x02" for item in sorted(filter(None, text.split("\x02"))))
    return text


def shaped_body(body: bytes, talk: Conversation) -> dict[str, Any]:
    if not body:
        return {}
    if len(body) > 8 and struct.unpack_from(">I", body, 4)[0] in MAGIC:
        return {"records": shaped_records(body, talk)}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
    try:
        return {"json": talk.normalise_value(parse_loose_json(text))}
    except NotJson:
        return {"text": talk.normalise(text)}


def shaped_records(body: bytes, talk: Conversation) -> list[dict[str, Any]]:
    records, position = [], 0
    while position < len(body):
        (size,) = struct.unpack_from(">i", body, position)
        records.append(shaped_record(body[position : position + size], talk))
        position += size
    return records


def shaped_record(record: bytes, talk: Conversation) -> dict[str, Any]:
    """What is zero or as the scenarios always send it is left out."""
    size, magic, crc, queue_id, flag = struct.unpack_from(">iIiii", record)
    queue_offset, _, system_flag, born_ms = struct.unpack_from(">qqiq", record, 20)
    born_host, position = _host(record, 48, bool(system_flag & 0x10))
    (stored_ms,) = struct.unpack_from(">q", record, position)
    store_host, position = _host(record, position + 8, bool(system_flag & 0x20))
    times, prepared, body_size = struct.unpack_from(">iqi", record, position)
    position += 16
    body = record[position : position + body_size]
    position += body_size
    length = struct.Struct(MAGIC[magic])
    (topic_size,) = length.unpack_from(record, position)
    position += length.size
    topic = record[position : position + topic_size].decode()
    position += topic_size
    (properties_size,) = struct.unpack_from(">h", record, position)
    properties = record[position + 2 : position + 2 + properties_size].decode()
    shape: dict[str, Any] = {"topic": topic, "queue": queue_id, "offset": queue_offset}
    shape |= {"size": size, **_shaped_content(body), **_shaped_properties(properties, talk)}
    optional = {"flag": flag, "system_flag": system_flag, "times": times}
    optional |= {"prepared": "{offset}" if prepared else 0}
    optional["born_ms"] = 0 if born_ms == BORN_MS else talk.normalise_value(born_ms)
    optional["stored_ms"] = 0 if is_near_now(stored_ms) else stored_ms
    optional["magic"] = 0 if magic == 0xDAA320A7 else magic
    optional["wrong_crc"] = int(crc != zlib.crc32(body) & 0x7FFFFFFF and bool(body or crc))
    is_own = born_host[0] == "127.0.0.1" and talk.is_ours(born_host[1])
    optional["born_host"] = 0 if is_own else talk.normalise(f"{born_host[0]}:{born_host[1]}")
    is_here = store_host == ("127.0.0.1", talk.port)
    optional["store_host"] = 0 if is_here else f"{store_host[0]}:{store_host[1]}"
    return shape | {name: value for name, value in optional.items() if value}


def _host(record: bytes, position: int, is_v6: bool) -> tuple[tuple[str, int], int]:
    size = 16 if is_v6 else 4
    address = ".".join(str(part) for part in record[position : position + size])
    (port,) = struct.unpack_from(">i", record, position + size)
    return (address, port), position + size + 4


def _shaped_content(body: bytes) -> dict[str, Any]:
    if len(body) > SHOWN_BODY_MAX:
        return {"body_size": len(body), "body_sha": hashlib.sha256(body).hexdigest()[:16]}
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _shaped_properties(text: str, talk: Conversation) -> dict[str, Any]:
    """Sorted: official brokers write them in the order of a hash table."""
    shape: dict[str, Any] = {}
    if len(text) > 20 * SHOWN_BODY_MAX:
        text, size = text[:SHOWN_BODY_MAX], len(text)
        shape["properties_size"] = size
    items = sorted(talk.normalise(item) for item in text.split("\x02") if item)
    if items:
        shape["properties"] = [item.replace("\x01", "=", 1) for item in items]
        if not text.endswith("\x02"):
            shape["properties_open"] = True
    return shape


def log_position(frame: Answer) -> str | None:
    """An offset id for `Conversation.kept`: of the message that was stored or read first."""
    message_id = frame.header.get("extFields", {}).get("msgId")
    if message_id:
        return str(message_id)[:32]
    if len(frame.body) > 36 and struct.unpack_from(">I", frame.body, 4)[0] in MAGIC:
        (offset,) = struct.unpack_from(">q", frame.body, 28)
        return f"{'0' * 16}{offset:016X}"
    return None
