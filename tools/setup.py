"""Completes `.venv` step by step: each layer from its hash-pinned lock, then the project itself.

A stamp per step holds the hash of what was installed: what is unchanged costs nothing, a changed
lock is installed again.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.environment import (
    COMPILED_SOURCES,
    LOCKS,
    ROOT,
    VENV,
    VENV_PYTHON,
    SetupFailed,
    install_lock,
    install_project,
    make_venv,
    say,
)
from tools.java_runtime import JAVA, JAVA_LOCK, JAVA_MIN, offered_javas, provide_java

STAMPS = VENV / "stamps"


@dataclass(frozen=True)
class Step:
    """One piece of the environment: due unless `product` exists and its stamp holds `key`."""

    name: str
    title: str
    product: Path
    key: str
    action: Callable[[], None]

    @property
    def stamp(self) -> Path:
        return STAMPS / self.name

    def is_done(self) -> bool:
        return self.product.exists() and self.stamp.is_file() and self.stamp.read_text() == self.key

    def run(self) -> None:
        self.action()
        STAMPS.mkdir(exist_ok=True)
        self.stamp.write_text(self.key)


def prepare(layers: Sequence[str]) -> None:
    """Make `.venv` hold `layers` and the project; do, and print, only what is missing."""
    with one_setup_at_a_time():
        steps = [step for step in plan(layers) if not step.is_done()]
        for number, step in enumerate(steps, 1):
            say(f"[{number}/{len(steps)}] {step.title} …")
            step.run()
    if steps:
        say(f"{VENV.name} is ready: {' '.join(layers)}")


def plan(layers: Sequence[str]) -> list[Step]:
    return [
        Step("venv", f"making {VENV.name}", VENV_PYTHON, "made", make_venv),
        layer_step("build"),
        *(layer_step(layer) for layer in layers),
        *([java_step()] if any(layer.startswith("spark") for layer in layers) else []),
        project_step(),
    ]


def layer_step(layer: str) -> Step:
    lock = LOCKS / f"{layer}.lock"
    if not lock.is_file():
        known = " ".join(sorted(path.stem for path in LOCKS.glob("*.lock")))
        raise SetupFailed(f"there is no layer {layer!r}; the layers are: {known}")
    title = f"installing {layer} layer ({packages_of(lock)})"
    return Step(layer, title, VENV_PYTHON, digest(lock), lambda: install_lock(lock))


def java_step() -> Step:
    key = " ".join((digest(JAVA_LOCK), *offered_javas()))  # another Java installed: look again
    return Step("java", f"looking for Java {JAVA_MIN}+", JAVA, key, provide_java)


def project_step() -> Step:
    sources = (ROOT / "pyproject.toml", *COMPILED_SOURCES)
    key = " ".join((str(ROOT), *map(digest, sources)))
    return Step("project", "installing emberq", VENV / "bin" / "emberq", key, install_project)


def packages_of(lock: Path) -> str:
    """Count names, not lines: a package may be pinned once per Python version."""
    count = len(set(re.findall(r"^([\w.-]+)==", lock.read_text(), re.MULTILINE)))
    return "1 package" if count == 1 else f"{count} packages"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@contextmanager
def one_setup_at_a_time() -> Iterator[None]:
    """Let `make test` and `make lint` start together in a fresh clone: one waits for the other."""
    try:
        import fcntl  # noqa: PLC0415 - absent on Windows, where nothing guards this
    except ImportError:
        yield
        return
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
