"""A version of a broker's topic table, compared by name servers and slaves."""

from msgspec import Struct, field


class DataVersion(Struct, frozen=True, kw_only=True):
    """Two tables are the same when all three fields are equal."""

    counter: int = 0
    state_version: int = field(name="stateVersion", default=0)
    timestamp_ms: int = field(name="timestamp", default=0)

    def next(self, now_ms: int, state_version: int | None = None) -> "DataVersion":
        """The version that follows this one after a change."""
        return DataVersion(
            counter=self.counter + 1,
            state_version=self.state_version if state_version is None else state_version,
            timestamp_ms=now_ms,
        )
