"""Where a send may go: the checks of its topic, in the official order, remembered per topic."""

import random
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from emberq.broker.handlers.send_fields import is_true, optional_number
from emberq.broker.settings import Settings
from emberq.broker.topics import FORBIDDEN_TO_SEND, Topics, topic_name_trouble
from emberq.errors import ProtocolError, RequestRejected
from emberq.model.system_topics import is_retry_topic
from emberq.model.topic import Permission, TopicConfig, TopicFilterType, TopicFlag
from emberq.protocol.codes import ResponseCode
from emberq.record.system_flag import MULTI_TAGS

FAQ_REMARK = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
RETRY_QUEUE_COUNT = 1
# Remembered topics; beyond that all are looked up anew, which costs time and nothing else.
TARGETS_MAX = 100_000


class Target(Struct, frozen=True, gc=False):
    """A topic that passed the checks, as sends need it."""

    config: TopicConfig
    write_queue_count: int
    queue_count: int  # queue ids below this may be named
    system_flag: int  # bits that the topic adds to a message's
    is_retry: bool


class SendTargets:
    """Answers from memory until a topic or the configuration changes."""

    def __init__(
        self, settings: Settings, topics: Topics, broker_ip: str, now_ms: Callable[[], int]
    ) -> None:
        self._settings = settings
        self._broker_ip = broker_ip
        self._topics = topics
        self._now_ms = now_ms
        self._known: dict[str, Target] = {}
        self.get = self._known.get  # asked once per send
        topics.on_change(self._forget)
        settings.on_change(lambda _: self._known.clear())

    def _forget(self, topic: str | None) -> None:
        if topic is None:
            self._known.clear()
        else:
            self._known.pop(topic, None)

    def find(self, topic: str, fields: Mapping[str, str], answer_fields: dict[str, str]) -> Target:
        """Check a topic that is not remembered, and create it if sends may.

        Raises:
            RequestRejected: it may not be sent to, with `answer_fields` in the answer.
        """
        config = self._checked(topic, fields, answer_fields)
        is_multi_tag = config.filter_type is TopicFilterType.MULTI_TAG
        target = Target(
            config,
            config.write_queue_count,
            max(config.write_queue_count, config.read_queue_count),
            MULTI_TAGS if is_multi_tag else 0,
            is_retry_topic(topic),
        )
        if len(self._known) >= TARGETS_MAX:
            self._known.clear()
        self._known[topic] = target
        return target

    def _checked(
        self, topic: str, fields: Mapping[str, str], answer_fields: dict[str, str]
    ) -> TopicConfig:
        config = self._settings.config
        begin_ms = config.start_accept_send_request_time_stamp
        if self._now_ms() < begin_ms:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {_readable_time(begin_ms)}",
                answer_fields,
            )
        known = self._topics.get(topic)
        if not config.broker_permission & Permission.WRITE and known and known.is_ordered:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._broker_ip}] sending message is forbidden",
                answer_fields,
            )
        if (trouble := topic_name_trouble(topic)) is not None:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, trouble, answer_fields)
        if topic in FORBIDDEN_TO_SEND:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"Sending message to topic[{topic}] is forbidden.",
                answer_fields,
            )
        known = known or self._created(topic, fields)
        if known is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{topic}] not exist, apply first please!{FAQ_REMARK}",
                answer_fields,
            )
        return known

    def _created(self, topic: str, fields: Mapping[str, str]) -> TopicConfig | None:
        is_retry = is_retry_topic(topic)
        system_flag = 0
        if is_true(fields, "k"):
            system_flag = int(TopicFlag.UNIT_SUBSCRIPTION if is_retry else TopicFlag.UNIT)
        template, queue_count = fields.get("c"), optional_number(fields, "d")
        if template is None or queue_count is None:
            raise ProtocolError("a send to a new topic names a template and a number of queues")
        created = self._topics.create_for_send(topic, template, queue_count, system_flag)
        if created is None and is_retry:
            created = self._topics.create_if_absent(
                topic, RETRY_QUEUE_COUNT, system_flag=system_flag
            )
        return created


def illegal_queue(
    queue_id: int, config: TopicConfig, peer: str, fields: dict[str, str]
) -> RequestRejected:
    return RequestRejected(
        ResponseCode.INVALID_PARAMETER,
        f"request queueId[{queue_id}] is illegal, {topic_text(config)} Producer: {peer}",
        fields,
    )


def any_queue(target: Target) -> int:
    """A queue for a message that names none. Raises ProtocolError if there is none to choose."""
    if target.write_queue_count <= 0:
        raise ProtocolError(f"the topic {target.config.name} has no queue that is written to")
    return int(random.random() * target.write_queue_count)


def topic_text(config: TopicConfig) -> str:
    """A topic as remarks of official brokers show it."""
    permission = "".join(
        letter if config.permission & bit else "-"
        for letter, bit in (
            ("R", Permission.READ),
            ("W", Permission.WRITE),
            ("X", Permission.INHERIT),
        )
    )
    attributes = ", ".join(f"{name}={value}" for name, value in config.attributes.items())
    return (
        f"TopicConfig [topicName={config.name}, readQueueNums={config.read_queue_count}, "
        f"writeQueueNums={config.write_queue_count}, perm={permission}, "
        f"topicFilterType={config.filter_type}, topicSysFlag={config.system_flag}, "
        f"order={'true' if config.is_ordered else 'false'}, attributes={{{attributes}}}]"
    )


def _readable_time(time_ms: int) -> str:
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ms / 1000))
    return f"{stamp},{time_ms % 1000:03d}"
