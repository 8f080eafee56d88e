"""The trace of a consumer: a producer of its own writes it."""

from emberq.client.aio.client import Client
from emberq.client.aio.producer import Producer
from emberq.client.aio.trace import SEND_TIMEOUT_S, Tracer, trace_group


def consumer_tracer(client: Client, group: str, trace: bool | str) -> Tracer | None:
    """`trace` is what consumers are given: False, True, or a topic."""
    if not trace:
        return None
    sender = Producer(trace_group(group, "CONSUME"), client=client, send_timeout=SEND_TIMEOUT_S)
    return Tracer(client, group, sender, trace)
