"""Which form of its heartbeat a broker gets: the whole one, or one without subscriptions.

Brokers of 5.x that know a client's subscriptions compare a fingerprint of them (heartbeat v2).
Older brokers do not read it, and get the whole heartbeat always.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from emberq.protocol.bodies.codec import encode_body
from emberq.protocol.bodies.heartbeat import Heartbeat
from emberq.record.string_hash import java_string_hash

_IS_SUPPORTED, _IS_CHANGED = "IS_SUPPORT_HEART_BEAT_V2", "IS_SUB_CHANGE"


def fingerprint(beat: Heartbeat) -> int:
    """A hash of what a client wants, whoever it is; never 0, which stands for none."""
    consumers = [
        replace(
            consumer,
            subscriptions=[replace(each, version=0) for each in consumer.subscriptions],
        )
        for consumer in beat.consumers
    ]
    plain = replace(
        beat, client_id="", consumers=consumers, fingerprint=0, is_without_subscriptions=False
    )
    return java_string_hash(encode_body(plain).decode()) or 1


class HeartbeatForms:
    """What brokers have been told, by address."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}

    def form_for(self, address: str, beat: Heartbeat) -> Heartbeat:
        """The heartbeat as this broker should get it now."""
        marked = replace(beat, fingerprint=fingerprint(beat))
        if self._told.get(address) != marked.fingerprint:
            return marked
        consumers = [replace(consumer, subscriptions=[]) for consumer in beat.consumers]
        return replace(marked, consumers=consumers, is_without_subscriptions=True)

    def answered(self, address: str, sent: Heartbeat, fields: Mapping[str, str]) -> None:
        if fields.get(_IS_SUPPORTED) == "true" and fields.get(_IS_CHANGED) != "true":
            self._told[address] = sent.fingerprint
        else:
            self._told.pop(address, None)

    def forget(self, address: str | None = None) -> None:
        """The next heartbeat is whole, to one broker or to all."""
        if address is None:
            self._told.clear()
        else:
            self._told.pop(address, None)
