"""A folder of a table, local or in an object store: the few operations that logs need."""

import os
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

from pyarrow import fs

from emberq.errors import TableError
from emberq.spark.archive.addresses import absolute, is_local, local_path

# Questions to an object store that are asked at the same time: each is a wait.
REQUESTS_TOGETHER = 16
# Of addresses that Arrow cannot open as they are: what to do.
_HINTS = {
    **dict.fromkeys(("s3a", "s3n"), "s3a is Spark's name for it, give s3://…"),
    "hdfs": "HDFS is read through Hadoop's own library: on driver and workers set JAVA_HOME, "
    "HADOOP_HOME and CLASSPATH=$(hadoop classpath --glob)",
}


class Folder:
    """Reads, lists and writes whole small files below one root.

    Local files appear under their name only when they are complete, and `write_new` fails if
    somebody else was first. Object stores offer no such step through Arrow (26.0 has no
    conditional put), nor through what else is installed: there, one writer at a time is a
    condition.
    """

    def __init__(self, root: str) -> None:
        self.root = absolute(root).rstrip("/")
        self.is_local = is_local(root)
        if self.is_local:
            self._files: fs.FileSystem = fs.LocalFileSystem()
            self._base = str(local_path(root))
        else:
            try:
                self._files, self._base = fs.FileSystem.from_uri(root)
            except (ValueError, OSError) as error:
                said = f"{root}: {str(error).partition(chr(10))[0]}"
                hint = _HINTS.get(urlsplit(root).scheme)
                raise TableError(f"{said}; {hint}" if hint else said) from error

    @property
    def filesystem(self) -> fs.FileSystem:
        return self._files

    def path_of(self, name: str) -> str:
        return f"{self._base}/{name}"

    def address_of(self, name: str) -> str:
        """How Spark, Delta and Iceberg call a file here."""
        return f"file://{self.path_of(name)}" if self.is_local else f"{self.root}/{name}"

    def name_of(self, address: str) -> str:
        """The reverse of `address_of`; addresses of other folders stay as they are."""
        for prefix in (f"file://{self._base}/", f"{self._base}/", f"{self.root}/"):
            if address.startswith(prefix):
                return address[len(prefix) :]
        return address

    def names(self, below: str, *, is_recursive: bool = False) -> list[str]:
        """Files below a folder, sorted; none if there is no such folder."""
        return sorted(self._infos(below, is_recursive=is_recursive))

    def modified_times(self) -> dict[str, float]:
        """All files in all folders, and when they were written, in seconds since 1970."""
        return {name: _modified_at_s(info) for name, info in self._infos("").items()}

    def modified_at_s(self, name: str) -> float:
        return _modified_at_s(self._files.get_file_info(self.path_of(name)))

    def _infos(self, below: str, *, is_recursive: bool = True) -> dict[str, fs.FileInfo]:
        selector = fs.FileSelector(
            self.path_of(below) if below else self._base,
            allow_not_found=True,
            recursive=is_recursive,
        )
        start = len(self._base) + 1
        return {
            info.path[start:]: info
            for info in self._files.get_file_info(selector)
            if info.type == fs.FileType.File
        }

    def read(self, name: str) -> bytes:
        with self._files.open_input_stream(self.path_of(name)) as stream:
            return bytes(stream.readall())

    def exists(self, name: str) -> bool:
        return self.size_bytes(name) is not None

    def size_bytes(self, name: str) -> int | None:
        """None: there is no such file."""
        info = self._files.get_file_info(self.path_of(name))
        return int(info.size) if info.type == fs.FileType.File else None

    def sizes_bytes(self, names: Sequence[str]) -> list[int | None]:
        """Of many files, in their order."""
        with ThreadPoolExecutor(REQUESTS_TOGETHER) as asking:
            return list(asking.map(self.size_bytes, names))

    def make(self) -> None:
        self._files.create_dir(self._base, recursive=True)

    def write_new(self, name: str, content: bytes) -> bool:
        """Write a file that must not exist; False if it does."""
        if not self.is_local:
            if self.exists(name):
                return False
            self._write(name, content)
            return True
        target = Path(self.path_of(name))
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with draft.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(draft, target)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _write(self, name: str, content: bytes) -> None:
        with self._files.open_output_stream(self.path_of(name)) as stream:
            stream.write(content)

    def delete(self, name: str) -> None:
        self._files.delete_file(self.path_of(name))


def _modified_at_s(info: fs.FileInfo) -> float:
    return info.mtime.timestamp() if info.mtime is not None else 0.0


def is_object_store(address: str) -> bool:
    """Whether Arrow has a client for it and Spark, as it is installed, has none."""
    return urlsplit(address).scheme in {"s3", "gs", "gcs", "abfs", "abfss"}
