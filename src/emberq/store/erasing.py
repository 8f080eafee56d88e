"""Finding what is left behind the end of a file that is written front to back."""

from collections.abc import Iterator

from emberq.store.disk import DiskFile

PIECE_SIZE_BYTES = 256 * 1024
_ZEROS = bytes(PIECE_SIZE_BYTES)


def pieces_not_zero(file: DiskFile, position: int) -> Iterator[tuple[int, int]]:
    """Positions and sizes of pieces that hold something, from a position on.

    Reads only what the file system has blocks for: most of a file is void, and reading a void
    would fill the system's cache with it.
    """
    for start, end in file.written_from(position):
        for at in range(start, end, PIECE_SIZE_BYTES):
            content = file.read(at, min(PIECE_SIZE_BYTES, end - at))
            if content != _ZEROS[: len(content)]:
                yield at, len(content)
