"""Records of a range straight from the files of a store: queue entries say which bytes to read."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from emberq.errors import ConfigError, DataLost, StoreError
from emberq.model.queue import MessageQueue
from emberq.record.string_hash import tag_code
from emberq.spark.links import Link
from emberq.spark.options import SourceOptions
from emberq.spark.planning import QueueSlice
from emberq.spark.queue_entries import Bools, Entries, are_messages, are_written, entries_in
from emberq.store.disk import RealDisk
from emberq.store.store_id import has_store_id
from emberq.store.view.directory import StoreView
from emberq.store.view.log import LogView
from emberq.store.view.queue import QueueView

log = logging.getLogger(__name__)

ENTRIES_TOGETHER = 4_096
# Records of one queue are read in one piece if at least this share of the piece is theirs.
DENSITY_MIN = 0.25
PIECE_MAX_BYTES = 4 * 1024 * 1024
# So many bytes of records go on to be decoded together, as of a pull; one record in any case.
CONTENT_MAX_BYTES = 2 * 1024 * 1024
_TAG_MASK = 0xFFFFFFFF

Positions = npt.NDArray[np.int64]


class LocalFiles:
    """The stores of brokers as far as their files are here, each opened once for all ranges."""

    def __init__(self, link: Link, options: SourceOptions) -> None:
        self._link = link
        self._options = options
        self._asked: set[str] = set()  # brokers
        self._views: dict[Path, StoreView] = {}

    def close(self) -> None:
        for view in self._views.values():
            view.close()

    def contents(self, each: QueueSlice) -> Iterator[tuple[bytes, int]]:
        """Records and the offset behind them, as far as the files of the broker hold them.

        With `scan=auto` there is nothing if its directory is not here. Files that are deleted while
        they are read end it as well: the broker then says which messages are left.
        """
        wire = self._link.wrapped(each.queue)
        root = self._root(wire)
        if root is None:
            if self._options.scan == "local":
                raise ConfigError(
                    f"scan=local: the files of {each.queue.broker_name} are not on this machine; "
                    "scan=auto reads over the network where they are not"
                )
            return
        try:
            view = self._view(root)
            yield from slice_contents(view, QueueSlice(wire, each.first, each.stop), self._options)
        except (FileNotFoundError, DataLost) as error:
            log.info("files_expired queue=%s reason=%s", each.queue, error)
        except (OSError, StoreError) as error:
            if self._options.scan == "local":
                raise DataLost(f"{each.queue} cannot be read from {root}: {error}") from error
            log.warning("files_unreadable queue=%s reason=%s", each.queue, error)

    def _root(self, wire: MessageQueue) -> Path | None:
        """Where the broker's files are. Only what it said is looked at, and again for each range:
        a broker that was started anew says something else."""
        name, link, options = wire.broker_name, self._link, self._options
        root = _directory(name, link)
        if root is not None or (options.scan == "auto" and name in self._asked):
            return root
        self._asked.add(name)
        link.run(lambda: link.know(wire), options.pull.retries, options.broker_wait_s)
        link.run(lambda: link.scans.heads([wire]), options.pull.retries, options.broker_wait_s)
        return _directory(name, link)

    def _view(self, root: Path) -> StoreView:
        view = self._views.get(root)
        if view is None:
            view = self._views[root] = StoreView(root)
        return view


def slice_contents(
    view: StoreView, each: QueueSlice, options: SourceOptions, queue: QueueView | None = None
) -> Iterator[tuple[bytes, int]]:
    """Records of a range in pieces of bounded size, each with the offset behind it; ends where the
    files have no more. Raises DataLost if a file is shorter than it was."""
    queue = queue or view.queue(each.queue.topic, each.queue.queue_id)
    wanted = {tag_code(tag) & _TAG_MASK for tag in options.decode.tags}
    offset = each.first
    while queue is not None and offset < each.stop:
        together = min(ENTRIES_TOGETHER, each.stop - offset)
        entries = read_entries(queue, offset, together + 1)  # with the one behind them
        is_held = are_held(view.log, entries[:together])
        count = len(is_held) if is_held.all() else int(np.argmin(is_held))
        if count == 0:
            return
        is_wanted = are_messages(entries[: count + 1])[:count]
        entries, behind = entries[:count], np.arange(offset + 1, offset + count + 1)
        if wanted:
            is_wanted &= np.isin(entries["tag"].astype(np.int64) & _TAG_MASK, list(wanted))
        entries, behind = entries[is_wanted], behind[is_wanted]
        for first, stop in read_together(entries["size"].astype(np.int64)):
            yield b"".join(_pieces(view, entries[first:stop])), int(behind[stop - 1])
        offset += count
        if len(behind) == 0 or behind[-1] < offset:
            yield b"", offset  # nobody wants what lies behind the last piece


def next_held(log_view: LogView, queue: QueueView | None, each: QueueSlice) -> int:
    """The offset of the first message of a range whose record the log has; else its end."""
    return _first_entry(queue, each, lambda entries: are_held(log_view, entries))


def next_written(queue: QueueView, each: QueueSlice) -> int:
    """The offset of the first entry of a range that is written; else its end."""
    return _first_entry(queue, each, are_written)


def _first_entry(
    queue: QueueView | None, each: QueueSlice, test: Callable[[Entries], Bools]
) -> int:
    """Also behind entries that are not written, and behind files that are missing."""
    offset = each.first
    while queue is not None and offset < each.stop:
        count = min(ENTRIES_TOGETHER, each.stop - offset)
        entries = entries_in(queue.entries(offset, count))
        found = np.flatnonzero(are_written(entries) & test(entries))
        if len(found):
            return offset + int(found[0])
        offset = offset + len(entries) if len(entries) else queue.next_offset(offset, each.stop)
    return each.stop


def are_held(of_store: LogView, entries: Entries) -> Bools:
    """Of each entry, whether its record lies within a file that is there."""
    segments = of_store.segments
    starts = entries["at"].astype(np.int64)
    if not segments:
        return np.zeros(len(entries), np.bool_)
    files = np.searchsorted(np.array([file.start for file in segments]), starts, "right") - 1
    ends = np.array([file.end for file in segments])[np.maximum(files, 0)]
    is_held: Bools = (files >= 0) & (starts + entries["size"] <= ends)
    return is_held


def read_together(sizes: Positions) -> Iterator[tuple[int, int]]:
    """Records whose bytes are joined, as numbers of the first and behind the last."""
    ends = np.cumsum(sizes)
    first = size = 0
    while first < len(ends):
        fitting = int(np.searchsorted(ends, size + CONTENT_MAX_BYTES, "right"))
        stop = max(first + 1, fitting)
        yield first, stop
        first, size = stop, int(ends[stop - 1])


def read_entries(queue: QueueView, offset: int, count: int) -> Entries:
    """Entries that are written, up to the first that is not."""
    entries = entries_in(queue.entries(offset, count))
    is_written = are_written(entries)
    end = len(entries) if is_written.all() else int(np.argmin(is_written))
    return entries[:end]


def _pieces(view: StoreView, entries: Entries) -> Iterator[bytes]:
    """The bytes of records, neighbours by one read; what lies between is cut out."""
    starts = entries["at"].astype(np.int64)
    ends = starts + entries["size"]
    for first, stop in runs(starts, ends):
        base, end = int(starts[first]), int(ends[stop - 1])
        piece = view.log.read(base, end - base)
        if len(piece) < end - base:
            raise DataLost(f"the log has no bytes at {base}")
        if int((ends[first:stop] - starts[first:stop]).sum()) == len(piece):
            yield piece
        else:
            cut = memoryview(piece)
            yield from (
                bytes(cut[low - base : high - base])
                for low, high in zip(
                    starts[first:stop].tolist(), ends[first:stop].tolist(), strict=True
                )
            )


def runs(starts: Positions, ends: Positions) -> Iterator[tuple[int, int]]:
    """Records that are read together, as numbers of the first and behind the last: they lie one
    behind the other, with little between them, in a piece of bounded size."""
    gaps = starts[1:] - ends[:-1]
    is_apart = (gaps < 0) | (gaps > (ends[1:] - starts[1:]) / DENSITY_MIN)
    begin = 0
    for end in [*(np.flatnonzero(is_apart) + 1).tolist(), len(starts)]:
        first = begin
        while first < end:
            fitting = np.searchsorted(ends[first:end], starts[first] + PIECE_MAX_BYTES, "right")
            stop = first + max(1, int(fitting))
            yield first, stop
            first = stop
        begin = end


def _directory(broker_name: str, link: Link) -> Path | None:
    hint = link.scans.stores.get(broker_name)
    if hint is None or not hint.root:
        return None
    root = Path(hint.root)
    return root if has_store_id(root, hint.store_id, RealDisk()) else None
