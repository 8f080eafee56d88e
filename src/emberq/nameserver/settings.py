"""The configuration in force, and its file."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from emberq.config_file import to_file, to_properties
from emberq.nameserver.config import NameServerConfig, updated
from emberq.protocol.properties_text import write_properties
from emberq.stored_file import replace_file


class Settings:
    """What handlers ask for the current value of a key; an update is stored before it counts."""

    def __init__(
        self, config: NameServerConfig, kept_properties: Mapping[str, str] | None = None
    ) -> None:
        self.config = config
        self._kept_properties = dict(kept_properties or {})
        self._changing = asyncio.Lock()

    async def update(self, changes: dict[str, str]) -> None:
        """Raises ConfigError for values that mean nothing, OSError if they cannot be stored."""
        async with self._changing:
            config = updated(self.config, changes)
            path = Path(config.config_store_path)
            content = to_file({**to_properties(config), **self._kept_properties})
            await asyncio.to_thread(replace_file, path, content)
            self.config = config

    def text(self) -> bytes:
        """Our own keys, for whoever asks. The others stay secret: a key's password is one."""
        return write_properties(to_properties(self.config))
