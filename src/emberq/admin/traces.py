"""The way of messages, put together from trace messages of all their clients."""

from collections.abc import Iterable

from msgspec import Struct

from emberq.client.core.received import ReceivedMessage
from emberq.client.core.trace_reading import (
    ConsumeBegan,
    ConsumeEnded,
    Published,
    Recalled,
    TraceEvent,
    TransactionEnded,
    read_trace,
)
from emberq.errors import RecordError


class MessageTrace(Struct, frozen=True, kw_only=True, rename="camel"):
    """All that is known of one message, in the order of time, but its send before all else."""

    message_id: str
    topic: str | None
    keys: list[str]
    events: list[TraceEvent]


def traces_of(messages: Iterable[ReceivedMessage], id_or_key: str) -> list[MessageTrace]:
    """One trace per message that has the id or the key."""
    found = list(_events(messages))
    by_id: dict[str, list[TraceEvent]] = {}
    for event in found:
        if id_or_key in event.message_ids:
            by_id[id_or_key] = []
        elif id_or_key in event.keys:
            by_id.update((message_id, []) for message_id in event.message_ids)
    for event in found:  # also those that name no key
        for message_id in by_id.keys() & event.message_ids:
            if event not in by_id[message_id]:  # a client that was unsure has sent it twice
                by_id[message_id].append(event)
    traces = [_trace(message_id, events) for message_id, events in by_id.items()]
    return sorted(traces, key=lambda trace: _time_ms(trace.events[0]))


def _events(messages: Iterable[ReceivedMessage]) -> Iterable[TraceEvent]:
    for message in messages:
        try:
            text = message.body.decode("utf-8", "replace")
        except RecordError:  # not readable here; the others may be
            continue
        yield from read_trace(text, message.born_host)


def _trace(message_id: str, events: list[TraceEvent]) -> MessageTrace:
    began_ms = {
        event.request_id: event.at_ms for event in events if isinstance(event, ConsumeBegan)
    }

    def place(event: TraceEvent) -> tuple[int, bool]:
        if isinstance(event, ConsumeEnded):
            return event.at_ms or began_ms.get(event.request_id, 0) + (event.cost_ms or 0), True
        return event.at_ms, False

    ordered = sorted(events, key=place)
    first_sent = next((event for event in ordered if isinstance(event, Published)), None)
    # Nobody handles what was not sent, whatever two clocks say; and Go's clients note the time
    # at which a send was answered, when a consumer may have begun already.
    ordered.sort(key=lambda event: event is not first_sent)
    told = [
        event for event in ordered if isinstance(event, Published | TransactionEnded | Recalled)
    ]
    return MessageTrace(
        message_id=message_id,
        topic=next((event.topic for event in told), None),
        keys=next((event.keys for event in ordered if event.keys), []),
        events=ordered,
    )


def _time_ms(event: TraceEvent) -> int:
    return event.at_ms or 0
