"""The consumer groups of a broker: their settings, and what they may not read."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from emberq.model.data_version import DataVersion
from emberq.model.group import GroupConfig
from emberq.model.system_topics import BUILT_IN_GROUPS, SYSTEM_GROUP_PREFIX
from emberq.protocol.bodies.groups import GroupTable

GROUP_NAME_LENGTH_MAX = 120
_LEGAL_NAME = re.compile(r"[%|a-zA-Z0-9_-]+")

GroupListener = Callable[[str], None]


def is_system_group(name: str) -> bool:
    """Whether a group belongs to the system: made on first use whatever the settings say."""
    return name.startswith(SYSTEM_GROUP_PREFIX)


def is_group_name(name: str) -> bool:
    return len(name) <= GROUP_NAME_LENGTH_MAX and _LEGAL_NAME.fullmatch(name) is not None


def group_name_trouble(name: str) -> str | None:
    """Why a name cannot be a group's, in the official words; None if it can."""
    if not name.strip():
        return "The specified group is blank."
    if _LEGAL_NAME.fullmatch(name) is None:
        return (
            f"The specified group: {name}, contains illegal characters, "
            "allowing only ^[%|a-zA-Z0-9_-]+$"
        )
    if len(name) > GROUP_NAME_LENGTH_MAX:
        return (
            f"The specified group: {name}, is longer than group max length: {GROUP_NAME_LENGTH_MAX}"
        )
    return None


class Groups:
    """Every consumer group this broker has settings for."""

    def __init__(
        self,
        *,
        is_auto_created: Callable[[], bool],
        now_ms: Callable[[], int],
        stored: GroupTable | None = None,
    ) -> None:
        self._is_auto_created = is_auto_created
        self._now_ms = now_ms
        self._listeners: list[GroupListener] = []
        stored = stored or GroupTable()
        built_in = {name: GroupConfig(name=name) for name in BUILT_IN_GROUPS}
        self._groups: dict[str, GroupConfig] = {**built_in, **stored.groups}
        self._forbidden = {group: dict(topics) for group, topics in stored.forbidden.items()}
        self.version: DataVersion = stored.data_version
        if not stored.groups:
            self.version = DataVersion(timestamp_ms=now_ms())

    def get(self, name: str) -> GroupConfig | None:
        return self._groups.get(name)

    def find(self, name: str) -> GroupConfig | None:
        """The group, made now if groups come into being by themselves; None: there is none."""
        known = self._groups.get(name)
        if known is not None:
            return known
        if not (self._is_auto_created() or is_system_group(name)) or not is_group_name(name):
            return None
        group = GroupConfig(name=name)
        self._add(group)
        return group

    def all(self) -> Mapping[str, GroupConfig]:
        return MappingProxyType(self._groups)

    def table(self) -> GroupTable:
        """A copy for files and peers."""
        return GroupTable(
            data_version=self.version,
            forbidden={group: dict(topics) for group, topics in self._forbidden.items()},
            groups=dict(self._groups),
        )

    def put(self, config: GroupConfig) -> bool:
        """Create or change a group; False: it was just so already."""
        if self._groups.get(config.name) == config:
            return False
        self._add(config)
        return True

    def remove(self, name: str) -> bool:
        """Forget a group and what was forbidden to it."""
        is_known = self._groups.pop(name, None) is not None
        is_forbidding = self._forbidden.pop(name, None) is not None
        if is_known or is_forbidding:
            self._changed(name)
        return is_known

    def disable_consume(self, name: str) -> None:
        """Let a group that reads too slowly read no more until an administrator allows it."""
        group = self._groups.get(name)
        if group is not None and group.is_consume_enabled:
            self._add(replace(group, is_consume_enabled=False))

    def set_forbidden(self, group: str, topic: str, index: int, is_forbidden: bool) -> None:
        """Set or clear one bit of what a group may not do with a topic."""
        before = self._forbidden.get(group, {}).get(topic, 0)
        after = before | 1 << index if is_forbidden else before & ~(1 << index)
        if after == before:
            return
        topics = self._forbidden.setdefault(group, {})
        if after:
            topics[topic] = after
        else:
            topics.pop(topic, None)
            if not topics:
                del self._forbidden[group]
        self._changed(group)

    def is_forbidden(self, group: str, topic: str, index: int) -> bool:
        topics = self._forbidden.get(group)
        return topics is not None and bool(topics.get(topic, 0) & 1 << index)

    def on_change(self, listener: GroupListener) -> None:
        """Call `listener(name)` after a change of that group."""
        self._listeners.append(listener)

    def _add(self, group: GroupConfig) -> None:
        self._groups[group.name] = group
        self._changed(group.name)

    def _changed(self, name: str) -> None:
        self.version = self.version.next(self._now_ms())
        for listener in self._listeners:
            listener(name)
