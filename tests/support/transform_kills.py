"""`transform` into a topic while somebody is killed: messages arrive at least once, or once, as the
sink's delivery promises it."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from emberq.errors import EmberqError
from emberq.model.queue import MessageQueue
from emberq.model.system_topics import HALF_TOPIC
from emberq.spark.ledger_topic import LEDGER_TOPIC
from tests.support.job_kills import ANY_MOMENT, MESSAGES_PER_BATCH, QUEUES, TOPIC, JobKills
from tests.support.topic_content import bodies_of

TARGET = "Transformed"
# Two attempts to send one message have the same place of origin; two messages never do.
QUERY = f"SELECT concat(body, ' ', queueId, '/', queueOffset) AS body FROM {TOPIC}"
_PLANNED, _DONE = "offsets/*", "commits/*"
_TOPIC_GROWS = "topic "


class TransformKills(JobKills):
    """Its points are files of the checkpoint, or topics that grow."""

    delivery = "at-least-once"
    points: ClassVar = {
        "planned": _PLANNED,
        "sending": _TOPIC_GROWS + TARGET,
        "done": _DONE,
        ANY_MOMENT: "",
    }

    def __init__(self, home: Path, random: Random) -> None:
        super().__init__(home, random)
        self._known_ends: dict[str, int] = {}

    def check(self) -> str:
        arrived = self._arrived()
        places = {body.split()[1] for body in arrived}
        assert len(places) == self.stored, f"{self.stored - len(places)} messages are missing"
        assert {body.split()[0] for body in arrived} == set(self.sent)
        twice = sorted(body for body, times in arrived.items() if times > 1)
        if self.delivery != "at-least-once":
            assert not twice, f"messages came twice: {twice[:10]}"
        return f"{len(arrived)} messages, none lost, {len(twice)} of them more than once"

    def _prepare(self) -> None:
        self._producer.create_topic(TARGET, queues=QUEUES)

    def _options(self) -> dict[str, Any]:
        return {
            "job": "transform",
            "toTopic": TARGET,
            "sql": QUERY,
            "checkpoint": str(self._folder),
            "source": {"maxOffsetsPerTrigger": str(MESSAGES_PER_BATCH)},
            "sink": {"delivery": self.delivery},
        }

    def _is_there(self) -> bool:
        return len(self._arrived()) >= self.stored

    def _arrived(self) -> Counter[str]:
        own = bodies_of(self._name_server, TARGET)
        return Counter(body for bodies in own for body in bodies)

    def _count(self, point: str) -> int:
        what = self.points[point]
        if not what.startswith(_TOPIC_GROWS):
            return super()._count(point)
        topic = what.removeprefix(_TOPIC_GROWS)
        try:
            ends = [self._producer.max_offset(queue) for queue in self._queues(topic)]
        except EmberqError:  # the broker is coming back
            return self._known_ends.get(topic, 0)
        self._known_ends[topic] = sum(ends)
        return self._known_ends[topic]

    def _queues(self, topic: str) -> list[MessageQueue]:
        own = self._producer.queues_of(TARGET)
        if topic == TARGET:
            return own
        return [MessageQueue(own[0].broker_name, 0, topic)]  # the brokers' own have one


class IdempotentTransformKills(TransformKills):
    delivery = "idempotent"


class TransactionalTransformKills(TransformKills):
    delivery = "transactional"
    points: ClassVar = {
        "planned": _PLANNED,
        "staging": _TOPIC_GROWS + HALF_TOPIC,
        "deciding": _TOPIC_GROWS + LEDGER_TOPIC,
        "showing": _TOPIC_GROWS + TARGET,
        "done": _DONE,
        ANY_MOMENT: "",
    }
