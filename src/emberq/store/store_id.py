"""Which of all store directories one is: a random text in it, another one after each start of its
broker.

Who was told it and finds it in a directory has found the directory of that very broker. Paths and
numbers of files prove nothing: machines that are set up alike have the same. Official brokers
leave the file alone.
"""

import logging
import secrets
from pathlib import Path

from emberq.store.disk import Disk

log = logging.getLogger(__name__)

STORE_ID_FILE = "emberqStoreId"
STORE_ID_SIZE_BYTES = 32


def renew_store_id(root: Path, disk: Disk) -> str:
    """Give a directory that is held by its lock a new id; none where it cannot be written: its
    files are then read by nobody else, which is slower and not wrong.

    Not synced: a text that a crash has cut is nobody's, and the next start writes another one.
    """
    store_id = secrets.token_hex(STORE_ID_SIZE_BYTES // 2)
    try:
        file = disk.create_sparse(root / STORE_ID_FILE, STORE_ID_SIZE_BYTES)
        try:
            file.write(0, store_id.encode())
        finally:
            file.close()
    except OSError as error:
        log.warning("store_id_not_written root=%s reason=%s", root, error)
        return ""
    return store_id


def has_store_id(root: Path, store_id: str, disk: Disk) -> bool:
    """Whether a directory has the id that its broker says. Who says none is never believed."""
    try:
        file = disk.open(root / STORE_ID_FILE, is_writable=False)
    except OSError:
        return False
    try:
        return bool(store_id) and file.read(0, STORE_ID_SIZE_BYTES) == store_id.encode()
    except OSError:
        return False
    finally:
        file.close()
