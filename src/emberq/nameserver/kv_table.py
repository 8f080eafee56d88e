"""The name server's key-value table: namespace → key → value, never changed in place."""

from collections.abc import Mapping

ORDER_TOPIC_NAMESPACE = "ORDER_TOPIC_CONFIG"

Namespaces = Mapping[str, Mapping[str, str]]


class KeyValueTable:
    """An immutable table; a change gives a new one, so that it can be stored before it counts."""

    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self._namespaces: dict[str, dict[str, str]] = {
            name: dict(entries) for name, entries in (namespaces or {}).items()
        }

    def get(self, namespace: str, key: str) -> str | None:
        return self._namespaces.get(namespace, {}).get(key)

    def list(self, namespace: str) -> dict[str, str] | None:
        """All entries of a namespace; None if it never had one."""
        return self._namespaces.get(namespace)

    def with_value(self, namespace: str, key: str, value: str) -> "KeyValueTable":
        entries = {**self._namespaces.get(namespace, {}), key: value}
        return KeyValueTable({**self._namespaces, namespace: entries})

    def without(self, namespace: str, key: str) -> "KeyValueTable":
        entries = self._namespaces.get(namespace)
        if entries is None or key not in entries:
            return self
        left = {name: value for name, value in entries.items() if name != key}
        return KeyValueTable({**self._namespaces, namespace: left})

    def namespaces(self) -> dict[str, dict[str, str]]:
        return self._namespaces
