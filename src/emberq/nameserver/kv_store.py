"""The key-value table on disk: `kvConfig.json`, stored before a change is answered."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from emberq.errors import ConfigError, ProtocolError
from emberq.nameserver.kv_table import KeyValueTable
from emberq.protocol.bodies.codec import decode_body, encode_body
from emberq.protocol.bodies.routes import KeyValueFile
from emberq.stored_file import backup_of, replace_file

log = logging.getLogger(__name__)


class KeyValueStore:
    """Holds the current table; changes it one at a time, file first."""

    def __init__(self, path: Path, table: KeyValueTable) -> None:
        self.table = table
        self._path = path
        self._changing = asyncio.Lock()

    async def change(self, step: Callable[[KeyValueTable], KeyValueTable]) -> None:
        """Apply a step. Raises OSError, and changes nothing, if it cannot be stored."""
        async with self._changing:
            table = step(self.table)
            if table is self.table:
                return
            content = encode_body(KeyValueFile(namespaces=table.namespaces()))
            await asyncio.to_thread(replace_file, self._path, content)
            self.table = table


def load_table(path: Path) -> KeyValueTable:
    """The stored table, or the one before it if the file is damaged; empty if there is none.

    Raises:
        ConfigError: there is a file, but neither it nor its predecessor can be read.
    """
    damage: list[str] = []
    for candidate in (path, backup_of(path)):
        try:
            content = candidate.read_bytes()
        except FileNotFoundError:
            break  # our file is never absent: somebody removed it to begin anew
        except OSError as error:
            raise ConfigError(f"{candidate}: {error.strerror or error}") from None
        if not content.strip():
            continue  # no table, as for official name servers, unless there was one before
        try:
            return KeyValueTable(decode_body(KeyValueFile, content).namespaces)
        except ProtocolError as error:
            damage.append(f"{candidate} is damaged: {error}")
            log.warning("kv_file_damaged path=%s reason=%s", candidate, error)
    if damage:
        raise ConfigError("; ".join(damage))
    return KeyValueTable()
