"""Addresses of folders: which are local, and what they mean to processes that work elsewhere."""

from pathlib import Path
from urllib.parse import urlsplit

_FILE = "file:"


def absolute(address: str) -> str:
    """The same place for processes that work in other folders; addresses stay as they are."""
    if not is_local(address):
        return address
    is_address = address.startswith(_FILE)
    return f"{_FILE}//{local_path(address)}" if is_address else str(local_path(address))


def is_local(address: str) -> bool:
    scheme = urlsplit(address).scheme
    return scheme in ("", "file") or len(scheme) == 1  # a drive letter is no scheme


def local_path(address: str) -> Path:
    """As Spark reads addresses of files: `#`, `?` and `%20` are what they are."""
    path = address.removeprefix(_FILE)
    if path != address and path.startswith("//"):
        path = "/" + path[2:].partition("/")[2]  # behind the host, which is this one
    return Path(path).absolute()
