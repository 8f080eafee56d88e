"""Which clients are online as producers. No sockets, no clock."""

from collections.abc import Callable, Hashable

from emberq.broker.members import Client, Member

# So many members are looked at for one that can be written to.
PICK_TRIES_MAX = 3


class Producers:
    """Producer groups by name, and their clients by client id."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Hashable, Member]] = {}
        self._groups_of: dict[Hashable, set[str]] = {}
        # The connection that last came in with a client id: replies go there.
        self._by_client_id: dict[str, Member] = {}
        self._next_pick = 0

    def groups(self) -> list[str]:
        return list(self._groups)

    def members(self, group: str) -> list[Member]:
        return list(self._groups.get(group, {}).values())

    def member(self, group: str, connection: Hashable) -> Member | None:
        return self._groups.get(group, {}).get(connection)

    def by_client_id(self, client_id: str) -> Member | None:
        return self._by_client_id.get(client_id)

    def pick(
        self, group: str, is_usable: Callable[[Hashable], bool] = lambda connection: True
    ) -> Member | None:
        """A member of the group, in turn."""
        members = self.members(group)
        for _ in range(min(PICK_TRIES_MAX, len(members))):
            self._next_pick += 1
            member = members[self._next_pick % len(members)]
            if is_usable(member.connection):
                return member
        return None

    def register(self, group: str, client: Client, now_ms: int) -> bool:
        """Note that a client is alive; True if it was not in the group."""
        members = self._groups.setdefault(group, {})
        member = members.get(client.connection)
        is_new = member is None
        if member is None:
            member = members[client.connection] = Member(client, now_ms)
            self._groups_of.setdefault(client.connection, set()).add(group)
        elif member.client != client:
            self._forget_client_id(member)
            member.client = client
        member.seen_at_ms = now_ms
        if is_new or client.client_id not in self._by_client_id:
            self._by_client_id[client.client_id] = member
        return is_new

    def unregister(self, group: str, connection: Hashable) -> bool:
        """Take one client out of one group; False if it was not in it."""
        members = self._groups.get(group)
        member = None if members is None else members.pop(connection, None)
        if members is None or member is None:
            return False
        if not members:
            del self._groups[group]
        names = self._groups_of[connection]
        names.discard(group)
        if not names:
            del self._groups_of[connection]
        self._forget_client_id(member)
        return True

    def connection_closed(self, connection: Hashable) -> list[str]:
        """Take a client out of all its groups; returns their names."""
        names = sorted(self._groups_of.get(connection, ()))
        for name in names:
            self.unregister(name, connection)
        return names

    def expire(self, now_ms: int, silence_max_ms: int) -> list[Member]:
        """Remove and return the members that were silent for longer."""
        oldest_ms = now_ms - silence_max_ms
        silent = [
            (group, member)
            for group, members in self._groups.items()
            for member in members.values()
            if member.seen_at_ms < oldest_ms
        ]
        for group, member in silent:
            self.unregister(group, member.connection)
        return [member for _, member in silent]

    def _forget_client_id(self, member: Member) -> None:
        """The id may have moved to another connection, or the client be in other groups."""
        client_id = member.client_id
        if self._by_client_id.get(client_id) is not member:
            return
        del self._by_client_id[client_id]
        for group in self._groups_of.get(member.connection, ()):
            other = self._groups[group][member.connection]
            if other is not member and other.client_id == client_id:
                self._by_client_id[client_id] = other
                return
