"""Producers and consumers of the soak run: small official clients, as far as a broker can tell.

A producer sends on the clock of the run, a consumer waits in long polls on its own queue, beats and
commits. Every body carries its producer, its number and the time, so that a message that is lost,
comes twice or late is seen.
"""

import struct
import time
from collections.abc import Callable

from msgspec import Struct, field

from benchmarks.scenarios import frames
from benchmarks.scenarios.connections import FrameConnection, Tally, next_offset
from emberq.model.subscription import ConsumeFromWhere, Subscription
from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.heartbeat import ConsumerPresence, Heartbeat, ProducerPresence
from emberq.protocol.codes import RequestCode

_MARK = b"\xf5\x0a\xc4\x1e"  # in no name, property or number of these records
_BODY = struct.Struct(">4sIId108x")  # mark, producer, number, time sent: 128 bytes with padding
_FOUND = b'{"code":0,'
_NOTICE = b'{"code":40,'  # the group has changed
_HEARTBEAT_PLACE = 899_999
_NUMBERS_MAX = 800_000


class Received(Struct):
    """What arrived, per producer: a byte per number, how often."""

    counts: list[bytearray]
    twice: int = 0
    messages: int = 0
    latencies_s: list[float] = field(default_factory=list)

    def note(self, producer: int, number: int, sent_at: float, now: float) -> None:
        seen = self.counts[producer]
        if number >= len(seen):
            seen.extend(bytes(number + 1 - len(seen)))
        if seen[number]:
            self.twice += 1
        else:
            seen[number] = 1
            self.messages += 1
        self.latencies_s.append(now - sent_at)


class SoakProducer(FrameConnection):
    """Sends when it is told to; knows which of its messages were acknowledged."""

    def __init__(self, tally: Tally, number: int, topic: str, queues: int) -> None:
        super().__init__(tally)
        self._number = number
        self._templates = [_template(topic, queue_id) for queue_id in range(queues)]
        self._sent_at: dict[int, float] = {}
        self.next_number = 0
        self.acknowledged: set[int] = set()
        self.refused: list[str] = []

    def send(self) -> None:
        number = self.next_number
        self.next_number = number + 1
        now = time.perf_counter()
        self._sent_at[number] = now
        template = self._templates[number % len(self._templates)]
        self.request(template(number % _NUMBERS_MAX, _BODY.pack(_MARK, self._number, number, now)))
        self.flush()

    def beat(self) -> None:
        presence = Heartbeat(
            client_id=f"producer-{self._number}", producers=[ProducerPresence(group=frames.GROUP)]
        )
        self.request(heartbeat(presence))
        self.flush()

    def take(self, start: int, end: int, now: float) -> None:
        place = self.place_of(start)
        if place == _HEARTBEAT_PLACE:
            return
        sent_at = self._sent_at.pop(place, None)
        if self._buffer[start + 8 : start + 18] == _FOUND and sent_at is not None:
            self.acknowledged.add(place)
            self._tally.messages += 1
            self._tally.latencies_s.append(now - sent_at)
        else:
            self._tally.refused += 1
            self.refused.append(self.header_text(start).decode(errors="replace"))


class SoakConsumer(FrameConnection):
    """One member of a group, on one queue."""

    def __init__(
        self, tally: Tally, received: Received, group: str, topic: str, queue: int
    ) -> None:
        super().__init__(tally)
        self._received = received
        self._group, self._topic, self._queue = group, topic, queue
        self._frames = frames.PullFrames(topic, queue, 32, may_wait=True, group=group)
        self._offset = 0

    def begin(self) -> None:
        self.beat()
        self.request(self._frames.at(0))

    def beat(self) -> None:
        presence = ConsumerPresence(
            group=self._group,
            consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
            subscriptions=[
                Subscription(topic=self._topic, expression="*", version=1_763_375_000_000)
            ],
        )
        self.request(
            heartbeat(Heartbeat(client_id=f"c-{self._group}-{self._queue}", consumers=[presence]))
        )
        self.flush()

    def commit(self) -> None:
        fields = {
            "consumerGroup": self._group,
            "topic": self._topic,
            "queueId": str(self._queue),
            "commitOffset": str(self._offset),
        }
        self._outbox.append(
            frames.request(RequestCode.UPDATE_CONSUMER_OFFSET, fields, place=1, is_oneway=True)
        )
        self.flush()

    def take(self, start: int, end: int, now: float) -> None:
        if self._buffer[start + 8 : start + 19] == _NOTICE:
            self.outstanding += 1  # the broker's own request, not an answer
            return
        if self.place_of(start) == _HEARTBEAT_PLACE:
            return
        if self._buffer[start + 8 : start + 18] == _FOUND:
            self._offset = next_offset(self._buffer, start)
            self._note(start, end, now)
        elif not self._buffer[start + 8 : start + 16].startswith((b'{"code":1', b'{"code":2')):
            self.fail(f"unexpected answer {self.header_text(start)!r}")
            return
        self.request(self._frames.at(self._offset))

    def _note(self, start: int, end: int, now: float) -> None:
        at = start
        while (at := self._buffer.find(_MARK, at, end)) >= 0:
            if end - at >= _BODY.size:
                _, producer, number, sent_at = _BODY.unpack_from(self._buffer, at)
                self._received.note(producer, number, sent_at, now)
            at += len(_MARK)


def heartbeat(presence: Heartbeat) -> bytes:
    return frames.request(RequestCode.HEART_BEAT, {}, encode_body(presence), place=_HEARTBEAT_PLACE)


def _template(topic: str, queue_id: int) -> Callable[[int, bytes], bytes]:
    """A send whose place and body are filled in later."""
    size = _BODY.size
    whole = frames.send(topic, queue_id, bytes(size))
    place = str(frames.PLACE_FIRST).encode()
    before, _, after = whole[:-size].partition(b'"opaque":' + place)

    def make(number: int, body: bytes) -> bytes:
        return b'%b"opaque":%d%b%b' % (before, frames.PLACE_FIRST + number, after, body)

    return make
