"""Makes the log's next segment before it is needed, in a thread of its own."""

import errno
import logging
import threading
import time
from pathlib import Path

from emberq.seldom import Seldom
from emberq.store.disk import Disk, MappedFile

log = logging.getLogger(__name__)

TAKE_TIMEOUT_S = 5.0  # official: then the put fails with "create mapped file failed"
# After a failure: meanwhile puts fail at once, without asking the disk again.
RETRY_AFTER_S = 0.5
FAILURE_LOGGED_EVERY_S = 10.0


class SegmentAllocator:
    """Prepares one segment at a time; the writer asks for it by path when it gets there."""

    def __init__(self, disk: Disk, size: int) -> None:
        self._disk = disk
        self._size = size
        self._changed = threading.Condition()
        self._wanted: Path | None = None
        self._ready: MappedFile | None = None
        self._failure: OSError | None = None
        self._failed_path: Path | None = None
        self._retry_at = 0.0
        self._late_path: Path | None = None  # its writer has waited for it once
        self._seldom = Seldom(FAILURE_LOGGED_EVERY_S)
        self._is_making = False
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="emberq-allocate", daemon=True)
        self._thread.start()

    def prepare(self, path: Path) -> None:
        """Begin to make this segment unless it is made already."""
        with self._changed:
            self._want(path)

    def take(self, path: Path) -> MappedFile:
        """The segment, waited for if need be.

        Raises:
            OSError: it cannot be made, or not in time.
        """
        with self._changed:
            if self._failed_path == path and time.monotonic() < self._retry_at:
                raise _again(self._failure, path)
            self._want(path)
            # A disk that hangs stops the writer once, not once per message.
            timeout_s = 0.0 if self._late_path == path else TAKE_TIMEOUT_S
            if not self._changed.wait_for(self._is_settled, timeout_s):
                self._late_path = path
                raise TimeoutError(f"{path} was not made within {TAKE_TIMEOUT_S:g} s")
            segment, self._ready = self._ready, None
            if segment is None:
                raise _again(self._failure, path)
            return segment

    def forget(self) -> None:
        """Remove a segment that nobody took, before the log is cut in front of it."""
        with self._changed:
            self._wanted = None
            self._changed.wait_for(lambda: not self._is_making)
            self._discard_ready()

    def stop(self) -> None:
        """End the thread and remove a segment that nobody took."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        self._thread.join()
        self._discard_ready()

    def _want(self, path: Path) -> None:
        if self._ready is not None and self._ready.path == path:
            return
        # A segment that the log no longer leads to would be a hole in the row of files.
        self._discard_ready()
        self._failure = None
        self._wanted = path
        self._changed.notify_all()

    def _discard_ready(self) -> None:
        segment, self._ready = self._ready, None
        if segment is not None:
            self._discard(segment)

    def _discard(self, segment: MappedFile) -> None:
        segment.close()
        try:
            self._disk.remove(segment.path)
        except OSError as error:  # it is empty, and the next start removes it
            log.warning("segment_not_removed path=%s reason=%s", segment.path, error)

    def _is_settled(self) -> bool:
        return self._wanted is None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None or self._is_stopped)
                if self._is_stopped:
                    return
                path = self._wanted
                self._is_making = True
            assert path is not None
            try:
                segment, failure = self._made(path)
            except Exception as error:  # without this thread the log could not grow any more
                log.exception("segment_not_made path=%s", path)
                segment, failure = None, OSError(errno.EIO, repr(error), str(path))
            with self._changed:
                if self._wanted == path:
                    self._ready, self._failure, self._wanted = segment, failure, None
                    self._failed_path = None if failure is None else path
                    self._retry_at = time.monotonic() + RETRY_AFTER_S
                    self._late_path = None
                elif segment is not None:  # the log was cut or moved meanwhile
                    self._discard(segment)
                self._is_making = False
                self._changed.notify_all()

    def _made(self, path: Path) -> tuple[MappedFile | None, OSError | None]:
        """The segment, of which the folder knows durably, or why there is none."""
        segment: MappedFile | None = None
        try:
            segment = self._disk.create_mapped(path, self._size)
            segment.sync()  # its size: only the last file of the row may be short after a crash
            self._disk.sync_folder(path.parent)
        except OSError as error:
            held_back = self._seldom.held_back()
            if held_back is not None:
                log.warning("segment_not_made path=%s reason=%s", path, error)
            if segment is not None:
                segment.close()
            return None, error
        return segment, None


def _again(failure: OSError | None, path: Path) -> OSError:
    """A failure of its own for each put: raised twice, one would collect tracebacks."""
    if failure is None:
        return OSError(f"{path} was not made")
    return OSError(failure.errno, failure.strerror, failure.filename)
