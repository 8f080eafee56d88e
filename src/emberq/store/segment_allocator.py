"""Makes the log's next segment before it is needed, in a thread of its own."""

import logging
import threading
from pathlib import Path

from emberq.store.disk import Disk, MappedFile

log = logging.getLogger(__name__)

TAKE_TIMEOUT_S = 5.0  # official: then the put fails with "create mapped file failed"


class SegmentAllocator:
    """Prepares one segment at a time; the writer asks for it by path when it gets there."""

    def __init__(self, disk: Disk, size: int) -> None:
        self._disk = disk
        self._size = size
        self._changed = threading.Condition()
        self._wanted: Path | None = None
        self._ready: MappedFile | None = None
        self._failure: OSError | None = None
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="emberq-allocate", daemon=True)
        self._thread.start()

    def prepare(self, path: Path) -> None:
        """Begin to make this segment unless it is made already."""
        with self._changed:
            if self._ready is None or self._ready.path != path:
                self._wanted = path
                self._changed.notify_all()

    def take(self, path: Path) -> MappedFile:
        """The segment, waited for if need be.

        Raises:
            OSError: it cannot be made, or not in time.
        """
        with self._changed:
            if self._ready is None or self._ready.path != path:
                self._failure = None
                self._wanted = path
                self._changed.notify_all()
            if not self._changed.wait_for(self._is_settled, TAKE_TIMEOUT_S):
                raise TimeoutError(f"{path} was not made within {TAKE_TIMEOUT_S:g} s")
            if self._ready is None or self._ready.path != path:
                raise self._failure or OSError(f"{path} was not made")
            segment, self._ready = self._ready, None
            return segment

    def stop(self) -> None:
        """End the thread and remove a segment that nobody took."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join()
        if self._ready is not None:
            self._ready.close()
            self._disk.remove(self._ready.path)
            self._ready = None

    def _is_settled(self) -> bool:
        return self._wanted is None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._is_stopped)
                if self._is_stopped:
                    return
                path = self._wanted
            assert path is not None
            segment: MappedFile | None = None
            failure: OSError | None = None
            try:
                segment = self._disk.create_mapped(path, self._size)
                self._disk.sync_folder(path.parent)
            except OSError as error:
                log.warning("segment_not_made path=%s reason=%s", path, error)
                failure = error
            with self._changed:
                self._ready, self._failure, self._wanted = segment, failure, None
                self._changed.notify_all()
