"""The commit log as its files show it: segments of any size, with or without gaps."""

from pathlib import Path

from emberq.errors import RecordError
from emberq.record.decode import decode_record
from emberq.record.layout import MAGIC_V1, MAGIC_V2, PREFIX_IPV4, SIZE_AND_MAGIC
from emberq.record.record import Record
from emberq.store.view.files import FileChain, PlacedFile, ReadOnlyFiles

_RECORD_MAGICS = (MAGIC_V1, MAGIC_V2)


class LogView:
    """Positions are log offsets."""

    def __init__(self, files: ReadOnlyFiles, folders: list[Path]) -> None:
        self._chain = FileChain(files, folders)
        self.folders = folders

    @property
    def segments(self) -> list[PlacedFile]:
        return self._chain.files

    @property
    def segment_size(self) -> int:
        """What the files show: all but damaged ones have the configured size."""
        return max((segment.size for segment in self.segments), default=0)

    @property
    def min_offset(self) -> int:
        return self.segments[0].start if self.segments else 0

    @property
    def limit(self) -> int:
        """Behind the last file; the log itself ends somewhere before."""
        return self.segments[-1].end if self.segments else 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    def segment_at(self, offset: int) -> PlacedFile | None:
        return self._chain.file_at(offset)

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the log, fewer where its files end. Raises OSError."""
        return self._chain.read(offset, size)

    def record(
        self, offset: int, size: int | None = None, *, is_crc_checked: bool = True
    ) -> Record:
        """The record at an offset; who knows its size saves a read.

        Raises:
            RecordError: there is no sound record that says it belongs here.
            OSError: the bytes cannot be read.
        """
        if size is None:
            size = self._record_size(offset)
        content = self.read(offset, size) if size > 0 else b""
        if not content:
            raise RecordError(f"the log has no bytes at {offset}")
        record = decode_record(content, is_crc_checked=is_crc_checked)
        if record.log_offset != offset:
            raise RecordError(f"the record at {offset} names its offset {record.log_offset}")
        return record

    def stored_at_ms(self, offset: int, size: int) -> int | None:
        """When the record at an offset was stored; None if there is no record."""
        try:
            return self.record(offset, size, is_crc_checked=False).stored_at_ms
        except (RecordError, OSError):
            return None

    def _record_size(self, offset: int) -> int:
        head = self.read(offset, PREFIX_IPV4.size)
        if len(head) < PREFIX_IPV4.size:
            raise RecordError(f"the log has no record at {offset}")
        size, magic = SIZE_AND_MAGIC.unpack_from(head)
        if magic not in _RECORD_MAGICS or size < PREFIX_IPV4.size:
            raise RecordError(f"no record begins at {offset}")
        segment = self.segment_at(offset)
        assert segment is not None
        return int(min(size, segment.end - offset))
