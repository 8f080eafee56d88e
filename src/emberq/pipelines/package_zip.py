"""EmberQ as a zip for processes of Spark that do not have it, modules of the user in it.

The zip is plain Python: compiled parts cannot be imported from one, and their plain twins do the
same. Modules of the user stand in it because it gets everywhere: to processes of streams as well,
which Spark gives nothing else of what is shipped (docs/decisions/0023).
"""

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import emberq
from emberq.errors import ConfigError

PACKAGE = Path(emberq.__file__).parent
PACKAGE_NAME = "emberq.zip"
_TOP_LEVEL = ("pyspark_rocketmq", "pyspark_emberq")
_KEPT = (".py", ".pyi", ".typed", ".html", ".css", ".js")
_ZIPS = (".zip", ".whl", ".egg")
_CACHE = "__pycache__"


def build_zip(target: Path, modules: Sequence[Path] = ()) -> Path:
    """The package, its discovery modules, and modules of the user's: files, packages or zips.

    Raises:
        ConfigError: one of these is none, or has a file that is there already.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in (PACKAGE, *(PACKAGE.parent / name for name in _TOP_LEVEL)):
            for path in sorted(package.rglob("*")):
                if path.is_file() and path.suffix in _KEPT:
                    archive.write(path, path.relative_to(PACKAGE.parent))
        for module in modules:
            for name, content in _files_of(module):
                if name in archive.NameToInfo:
                    raise ConfigError(f"{module}: {name} is in the package already")
                archive.writestr(name, content)
    return target


def added_modules(package: Path) -> list[str]:
    """Names by which what is in the zip beside EmberQ is imported."""
    names = zipfile.ZipFile(package).namelist()
    found = {name.split("/")[0].removesuffix(".py") for name in names if name.endswith(".py")}
    return sorted(name for name in found - {PACKAGE.name, *_TOP_LEVEL} if name.isidentifier())


def _files_of(module: Path) -> Iterator[tuple[str, bytes]]:
    """Names as they are imported, and what the files hold."""
    if module.is_dir():
        for path in sorted(module.rglob("*")):
            if path.is_file() and _CACHE not in path.parts:
                yield path.relative_to(module.parent).as_posix(), path.read_bytes()
    elif module.suffix == ".py":
        yield module.name, module.read_bytes()
    elif module.suffix in _ZIPS and zipfile.is_zipfile(module):
        with zipfile.ZipFile(module) as given:
            for entry in given.infolist():
                if not entry.is_dir():
                    yield entry.filename, given.read(entry)
    else:
        raise ConfigError(f"{module}: expected a module (.py), a package's folder or a zip of them")
