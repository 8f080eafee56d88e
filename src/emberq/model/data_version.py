"""A version of a broker's topic table, compared by name servers and slaves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion:
    """Two tables are the same when all three fields are equal."""

    state_version: int = 0
    timestamp_ms: int = 0
    counter: int = 0

    def changed_at(self, now_ms: int, state_version: int | None = None) -> "DataVersion":
        """The version that follows this one after a change."""
        return DataVersion(
            state_version=self.state_version if state_version is None else state_version,
            timestamp_ms=now_ms,
            counter=self.counter + 1,
        )
