"""Messages as one line of text each, written alike by the Java client and here."""

from collections import defaultdict
from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus

from emberq.record.decode import with_plain_body
from emberq.record.message_id import make_offset_id, visible_message_id
from emberq.record.properties import decode_properties
from emberq.record.record import Record

DIGEST_SIZE_BYTES = 12
# What URLEncoder leaves as it is; Python's quoting has it the other way round.
_UNQUOTED_IN_JAVA = "*"
_QUOTED_IN_JAVA = "~"


class SeenMessage(NamedTuple):
    """Everything that a reader can tell of a message; the words of a line."""

    queue_id: int
    queue_offset: int
    log_offset: int
    offset_id: str
    message_id: str
    born_at_ms: int
    stored_at_ms: int
    flag: int
    reconsume_times: int
    tags: str
    keys: str
    body_digest: str
    properties_digest: str

    @property
    def line(self) -> str:
        words = self._replace(
            message_id=_quoted(self.message_id), tags=_quoted(self.tags), keys=_quoted(self.keys)
        )
        return "\t".join(map(str, words))

    @property
    def key_words(self) -> list[str]:
        return [word for word in self.keys.split(" ") if word]


def seen(line: str) -> SeenMessage:
    """The message of a line."""
    words = line.split("\t")
    texts = [unquote_plus(word) for word in words]
    return SeenMessage(
        int(words[0]),
        int(words[1]),
        int(words[2]),
        words[3],
        texts[4],
        int(words[5]),
        int(words[6]),
        int(words[7]),
        int(words[8]),
        texts[9],
        texts[10],
        words[11],
        words[12],
    )


def seen_in(record: Record) -> SeenMessage:
    """The message of a record."""
    plain = with_plain_body(record)
    properties = decode_properties(record.properties)
    return SeenMessage(
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        log_offset=record.log_offset,
        offset_id=make_offset_id(record.store_host, record.log_offset),
        message_id=visible_message_id(record),
        born_at_ms=record.born_at_ms,
        stored_at_ms=record.stored_at_ms,
        flag=record.flag,
        reconsume_times=record.reconsume_times,
        tags=properties.get("TAGS", ""),
        keys=properties.get("KEYS", ""),
        body_digest=digest(plain.body),
        properties_digest=properties_digest(properties),
    )


def properties_digest(properties: dict[str, str]) -> str:
    text = "".join(f"{name}={properties[name]}\n" for name in sorted(properties))
    return digest(text.encode())


def digest(content: bytes | memoryview) -> str:
    return sha256(content).digest()[:DIGEST_SIZE_BYTES].hex()


def by_queue(messages: Iterable[SeenMessage]) -> dict[int, list[SeenMessage]]:
    queues: dict[int, list[SeenMessage]] = defaultdict(list)
    for message in messages:
        queues[message.queue_id].append(message)
    return queues


def by_key(messages: Iterable[SeenMessage]) -> dict[str, set[int]]:
    """Log offsets of the messages that carry a key."""
    offsets: dict[str, set[int]] = defaultdict(set)
    for message in messages:
        for key in message.key_words:
            offsets[key].add(message.log_offset)
    return offsets


def _quoted(text: str) -> str:
    return quote_plus(text, safe=_UNQUOTED_IN_JAVA).replace(_QUOTED_IN_JAVA, "%7E")
