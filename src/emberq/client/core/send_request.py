"""Send requests of one producer, as text that is made once per topic and broker."""

import time

from emberq.client.core.outgoing import Outgoing
from emberq.model.queue import MessageQueue
from emberq.protocol.codes import RequestCode
from emberq.protocol.command import Command, new_request
from emberq.protocol.request_frame import FramedRequest, RequestFrame

# Frames that are kept; a producer of more topics makes some of them again.
FRAMES_MAX = 1024

_NUMBERS = ("e", "f", "g", "h")
_TEXT = "i"
_FrameKey = tuple[str, str, bool, bool]


class SendRequests:
    """Framed ones are quick to make; hooks, and requests without an answer, need the others."""

    def __init__(self, group: str, template_topic: str, new_topic_queues: int) -> None:
        """`group` as it is on the wire."""
        self._group = group
        self._template_topic = template_topic
        self._new_topic_queues = str(new_topic_queues)
        self._frames: dict[_FrameKey, RequestFrame] = {}

    def framed(self, ready: Outgoing, queue: MessageQueue) -> Command | FramedRequest:
        key = (ready.topic, queue.broker_name, ready.is_batch, ready.is_reply)
        frame = self._frames.get(key) or self._new_frame(key)
        now_ms = time.time_ns() // 1_000_000
        numbers = (queue.queue_id, ready.system_flag, now_ms, ready.flag)
        try:
            return frame.request(numbers, ready.properties, ready.body)
        except UnicodeEncodeError:  # half of a surrogate pair, which the other way replaces
            return self.with_fields(ready, queue)

    def with_fields(self, ready: Outgoing, queue: MessageQueue) -> Command:
        fields = self._fields(ready.topic, queue.broker_name, is_batch=ready.is_batch)
        fields["e"] = str(queue.queue_id)
        fields["f"] = str(ready.system_flag)
        fields["g"] = str(time.time_ns() // 1_000_000)
        fields["h"] = str(ready.flag)
        fields["i"] = ready.properties
        return new_request(_code(ready.is_batch, ready.is_reply), fields, ready.body)

    def _new_frame(self, key: _FrameKey) -> RequestFrame:
        topic, broker_name, is_batch, is_reply = key
        if len(self._frames) >= FRAMES_MAX:
            self._frames.clear()
        frame = self._frames[key] = RequestFrame(
            _code(is_batch, is_reply),
            self._fields(topic, broker_name, is_batch=is_batch),
            numbers=_NUMBERS,
            text=_TEXT,
        )
        return frame

    def _fields(self, topic: str, broker_name: str, *, is_batch: bool) -> dict[str, str]:
        return {
            "a": self._group,
            "b": topic,
            "c": self._template_topic,
            "d": self._new_topic_queues,
            "e": "",
            "f": "",
            "g": "",
            "h": "",
            "i": "",
            "j": "0",
            "k": "false",
            "m": "true" if is_batch else "false",
            "n": broker_name,
        }


def _code(is_batch: bool, is_reply: bool) -> RequestCode:
    if is_reply:
        return RequestCode.SEND_REPLY_MESSAGE_V2
    return RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2
