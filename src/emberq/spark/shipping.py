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

    def unpack(home: str, package: bytes, content: bytes) -> Any:
        import pickle  # noqa: PLC0415 - all of this runs elsewhere
        import sys  # noqa: PLC0415
        from importlib.util import find_spec  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        if find_spec("emberq") is None:
            if package and not (home and Path(home).exists()):
                import atexit  # noqa: PLC0415
                import shutil  # noqa: PLC0415
                import tempfile  # noqa: PLC0415

                folder = tempfile.mkdtemp(prefix="emberq-")
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
                home = str(Path(folder, "emberq.zip"))
                Path(home).write_bytes(package)
            sys.path.append(home)
        made, state = pickle.loads(content)
        if not isinstance(made, type):
            return made(*state)
        instance: Any = object.__new__(made)
        instance.__dict__.update(state)
        return instance

    return unpack
