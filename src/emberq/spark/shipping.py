"""Objects that travel to processes of Spark in which the package is not on the path.

What --py-files and artifacts bring reaches planners and, mostly, workers: not the process of a
stream reader, and on a Connect server nobody who works for a stream. So what is pickled there
begins with a function that travels by value, as functions in functions do: it needs nothing of
ours, and finds the package, or unpacks the one it has with it, before the rest is read.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

import emberq

# Of the package: a folder, or the zip that was shipped.
HOME = Path(emberq.__file__).parent.parent


class Shipped:
    """For classes whose instances Spark pickles; their state is what `__getstate__` says."""

    def __reduce__(self) -> tuple[Any, ...]:
        content = pickled((type(self), self.__getstate__()))
        return unpacker(), (str(HOME), own_package(), content)


def pickled(content: Any) -> bytes:
    return cloudpickle.dumps(content)  # type: ignore[no-untyped-call, no-any-return] # it has no types


@functools.cache
def own_package() -> bytes:
    """The zip that this process runs from; nothing where the package is installed."""
    return HOME.read_bytes() if HOME.is_file() else b""


def unpacker() -> Callable[[str, bytes, bytes], Any]:
    """What makes an object of a class and a state, or calls a function with arguments, where the
    package may be missing."""

    def kept(package: bytes) -> str:
        """Its place on this machine, the same for all processes: they come and go with no chance
        to tidy up. Nobody else may have put something there."""
        import hashlib  # noqa: PLC0415 - all of this runs elsewhere
        import os  # noqa: PLC0415
        import stat  # noqa: PLC0415
        import tempfile  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        user = os.getuid() if hasattr(os, "getuid") else None
        name = f"emberq-{user}-{hashlib.sha256(package).hexdigest()[:32]}"
        folder = Path(tempfile.gettempdir(), name)
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            found = folder.lstat()
            is_private = stat.S_ISDIR(found.st_mode) and not found.st_mode & 0o077
            if user is not None and not (is_private and found.st_uid == user):
                folder = Path(tempfile.mkdtemp(prefix="emberq-"))
        target = folder / "emberq.zip"
        if not target.exists():
            draft = folder / f"{os.getpid()}.zip"
            draft.write_bytes(package)
            draft.replace(target)
        return str(target)

    def unpack(home: str, package: bytes, content: bytes) -> Any:
        import pickle  # noqa: PLC0415
        import sys  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        if find_spec("emberq") is None:
            if package and not (home and Path(home).exists()):
                home = kept(package)
            sys.path.append(home)
        made, state = pickle.loads(content)
        if not isinstance(made, type):
            return made(*state)
        instance: Any = object.__new__(made)
        instance.__dict__.update(state)
        return instance

    return unpack
