"""Where queries began to read (config/emberqScanStarts.json): set once, kept until cleared."""

from emberq.errors import RequestRejected
from emberq.protocol.bodies.scans import OffsetsByTopic, ScanStartTable
from emberq.protocol.codes import ResponseCode

GROUPS_MAX = 10_000
STARTS_PER_GROUP_MAX = 65_536


class ScanStarts:
    def __init__(self, stored: ScanStartTable | None = None) -> None:
        self._groups: dict[str, OffsetsByTopic] = dict(stored.groups) if stored else {}

    def of(self, group: str, topic: str) -> dict[int, int]:
        """By queue id; empty if the group has none there."""
        return dict(self._groups.get(group, {}).get(topic, {}))

    def pin(self, group: str, starts: OffsetsByTopic) -> bool:
        """Set what is not set yet; False: nothing was new. Raises RequestRejected."""
        known = self._groups.get(group, {})
        fresh = {
            topic: {
                queue_id: offset
                for queue_id, offset in queues.items()
                if queue_id not in known.get(topic, {})
            }
            for topic, queues in starts.items()
        }
        added = sum(map(len, fresh.values()))
        if added == 0:
            return False
        if sum(map(len, known.values())) + added > STARTS_PER_GROUP_MAX:
            raise _too_many(f"starts of group {group}", STARTS_PER_GROUP_MAX)
        if group not in self._groups and len(self._groups) >= GROUPS_MAX:
            raise _too_many("groups with starts", GROUPS_MAX)
        topics = self._groups.setdefault(group, {})
        for topic, queues in fresh.items():
            if queues:
                topics.setdefault(topic, {}).update(queues)
        return True

    def clear(self, group: str, topics: list[str]) -> bool:
        """Forget starts; False: there were none."""
        known = self._groups.get(group, {})
        gone = [topic for topic in topics if known.pop(topic, None) is not None]
        if not known:
            self._groups.pop(group, None)
        return bool(gone)

    def remove_topic(self, topic: str) -> bool:
        """Forget it for all groups: its successor has other messages. False: no group had it."""
        return any([self.clear(group, [topic]) for group in list(self._groups)])

    def remove_group(self, group: str) -> bool:
        return self._groups.pop(group, None) is not None

    def table(self) -> ScanStartTable:
        """A copy for the file."""
        return ScanStartTable(
            groups={
                group: {topic: dict(queues) for topic, queues in topics.items()}
                for group, topics in self._groups.items()
            }
        )


def _too_many(what: str, count_max: int) -> RequestRejected:
    return RequestRejected(ResponseCode.INVALID_PARAMETER, f"more than {count_max} {what}")
