"""What a pull may read: the checks of official brokers, in their order, and what they found.

A consumer repeats its pulls with nothing new but the offset, so what was found is remembered and
holds until a setting, a topic or a group is another one.
"""

from collections.abc import Callable, Mapping
from operator import itemgetter

from msgspec import Struct

from emberq.broker.config import BrokerConfig
from emberq.broker.faq import FAQ_HINT
from emberq.broker.filters.choice import FilterChoice
from emberq.broker.filters.message_filter import MessageFilter
from emberq.broker.groups import Groups
from emberq.broker.held_pulls import QueueKey
from emberq.broker.members import ConsumerGroup
from emberq.broker.pull_request import Pull, read_pull
from emberq.broker.topics import Topics
from emberq.errors import RequestRejected
from emberq.model.data_version import DataVersion
from emberq.model.group import GroupConfig
from emberq.model.topic import Permission, TopicConfig
from emberq.protocol.codes import RequestCode, ResponseCode
from emberq.store.reader import ReadLimits

# Entries looked at for one pull, however many messages it asks for.
SCAN_MAX = 8_000
# Limits are made once per `maxMsgNums`; so many different ones are kept.
LIMITS_KEPT_MAX = 1_000
QUEUE_ENTRY_SIZE = 20
# Pulls that are remembered, each by its fields; beyond that all are checked anew.
REMEMBERED_MAX = 50_000
REMEMBERED_LENGTH_MAX = 2_048

FORBIDDEN_BROKER, FORBIDDEN_GROUP, FORBIDDEN_TOPIC = "1", "2", "3"

_READ = int(Permission.READ)
_LITE = int(RequestCode.LITE_PULL_MESSAGE)
# Fields that every pull of one consumer from one queue has in common.
_repeated = itemgetter(
    *("consumerGroup", "topic", "queueId", "maxMsgNums", "sysFlag"),
    *("suspendTimeoutMillis", "subVersion"),
)
_OFFSET_DIGITS_MAX = 18  # fits into 63 bits whatever they are

_Key = tuple[tuple[str, ...], str | None, str | None, int]


class PullTerms(Struct, frozen=True, gc=False):
    """A pull that passed the checks; its offsets are those of one pull among many."""

    pull: Pull
    code: int
    key: QueueKey
    group: GroupConfig
    topic: TopicConfig
    filter: MessageFilter
    limits: ReadLimits
    # What was looked at: another object means that the checks are to be made again.
    config: BrokerConfig
    groups_version: DataVersion
    topics_version: DataVersion
    online: ConsumerGroup | None
    revision: int
    is_lasting: bool


class PullChecks:
    def __init__(
        self,
        *,
        topics: Topics,
        groups: Groups,
        choice: FilterChoice,
        config: Callable[[], BrokerConfig],
        broker_ip: str,
    ) -> None:
        self._topics = topics
        self._groups = groups
        self._choice = choice
        self._config = config
        self._broker_ip = broker_ip
        self._limits: dict[int, ReadLimits] = {}
        self._limits_of: BrokerConfig | None = None
        self._remembered: dict[_Key, PullTerms] = {}

    def terms_of(
        self, fields: Mapping[str, str], code: int, peer: str
    ) -> tuple[PullTerms, int, int]:
        """The terms of a pull, its offset, and the offset that it may commit.

        Raises:
            RequestRejected: it may not read, with the official code and remark.
            ProtocolError: a field is missing or no number.
        """
        key = _key(fields, code)
        if key is not None:
            terms = self._remembered.get(key)
            if terms is not None and self.are_valid(terms):
                offset = fields.get("queueOffset", "")
                commit_offset = fields.get("commitOffset", "")
                if _is_plain_number(offset) and _is_plain_number(commit_offset):
                    return terms, int(offset), int(commit_offset)
        pull = read_pull(fields)
        terms = self._checked(pull, code, peer)
        if key is not None and terms.is_lasting:
            self._remember(key, terms)
        return terms, pull.offset, pull.commit_offset

    def are_valid(self, terms: PullTerms) -> bool:
        """Whether a check would find the same."""
        return (
            terms.is_lasting
            and terms.config is self._config()
            and terms.groups_version is self._groups.version
            and terms.topics_version is self._topics.version
            and (
                terms.online is None
                or self._choice.is_unchanged(terms.pull.group, terms.online, terms.revision)
            )
        )

    def renewed(self, terms: PullTerms, peer: str) -> PullTerms:
        """The terms as they are now. Raises RequestRejected."""
        return terms if self.are_valid(terms) else self._checked(terms.pull, terms.code, peer)

    def forget(self) -> None:
        """Check every pull again at its next request."""
        self._remembered.clear()

    def _remember(self, key: _Key, terms: PullTerms) -> None:
        texts, expression, expression_type, _ = key
        length = sum(map(len, texts)) + len(expression or "") + len(expression_type or "")
        if length <= REMEMBERED_LENGTH_MAX:
            if len(self._remembered) >= REMEMBERED_MAX:
                self._remembered.clear()
            self._remembered[key] = terms

    def _checked(self, pull: Pull, code: int, peer: str) -> PullTerms:
        config = self._config()
        if not config.broker_permission & _READ:
            raise _forbidden(f"the broker[{self._broker_ip}] pulling message is", FORBIDDEN_BROKER)
        if code == _LITE and not config.lite_pull_message_enable:
            what = f"the broker[{self._broker_ip}] for lite pull consumer is"
            raise _forbidden(what, FORBIDDEN_BROKER)
        group = self._groups.find(pull.group)
        if group is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group [{pull.group}] does not exist, {FAQ_HINT}",
                {},
            )
        if not group.is_consume_enabled:
            raise RequestRejected(
                ResponseCode.NO_PERMISSION,
                f"subscription group no permission, {pull.group}",
                {"forbiddenType": FORBIDDEN_GROUP},
            )
        topic = self._readable_topic(pull, peer)
        chosen = self._choice.choose(pull, group)
        return PullTerms(
            pull,
            code,
            (pull.topic, pull.queue_id),
            group,
            topic,
            chosen.filter,
            self._limits_for(pull.count_max, config),
            config,
            self._groups.version,
            self._topics.version,
            chosen.online,
            0 if chosen.online is None else chosen.online.revision,
            chosen.is_lasting,
        )

    def _readable_topic(self, pull: Pull, peer: str) -> TopicConfig:
        topic = self._topics.get(pull.topic)
        if topic is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{pull.topic}] not exist, apply first please! {FAQ_HINT}",
                {},
            )
        if not topic.permission & _READ:
            raise _forbidden(f"the topic[{pull.topic}] pulling message is", FORBIDDEN_TOPIC)
        if not 0 <= pull.queue_id < topic.read_queue_count:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"queueId[{pull.queue_id}] is illegal, topic:[{pull.topic}] "
                f"topicConfig.readQueueNums:[{topic.read_queue_count}] "
                f"consumer:[/{peer}]",
                {},
            )
        return topic

    def _limits_for(self, count_max: int, config: BrokerConfig) -> ReadLimits:
        if config is not self._limits_of or len(self._limits) >= LIMITS_KEPT_MAX:
            self._limits = {}
            self._limits_of = config
        limits = self._limits.get(count_max)
        if limits is None:
            scanned = max(config.max_filter_message_size // QUEUE_ENTRY_SIZE, count_max)
            limits = self._limits[count_max] = ReadLimits(
                count_max=max(1, min(count_max, config.max_transfer_count_on_message_in_memory)),
                size_max_bytes=config.max_transfer_bytes_on_message_in_memory,
                count_max_on_disk=config.max_transfer_count_on_message_in_disk,
                size_max_bytes_on_disk=config.max_transfer_bytes_on_message_in_disk,
                scan_max=max(1, min(scanned, SCAN_MAX)),
            )
        return limits


def _key(fields: Mapping[str, str], code: int) -> _Key | None:
    """By what a pull is remembered; None: it lacks a field that most have."""
    try:
        texts = _repeated(fields)
    except KeyError:
        return None
    return texts, fields.get("subscription"), fields.get("expressionType"), code


def _is_plain_number(text: str) -> bool:
    return text.isdigit() and text.isascii() and len(text) <= _OFFSET_DIGITS_MAX


def _forbidden(what: str, kind: str) -> RequestRejected:
    return RequestRejected(ResponseCode.NO_PERMISSION, f"{what} forbidden", {"forbiddenType": kind})
