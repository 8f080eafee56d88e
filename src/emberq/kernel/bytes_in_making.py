"""Bytes that a system call fills where they will stay."""


class BytesInMaking(bytearray):
    """Made with a size; who fills it takes `finished()` and writes no more. Only the compiled twin
    saves the copy, and leaves what nobody filled undefined."""

    def finished(self) -> bytes:
        return bytes(self)
