"""Writes requirements/*.lock from pyproject.toml, valid for every supported Python and platform."""

import subprocess

from tools.environment import LOCKS, ROOT, VENV, SetupFailed, say
from tools.setup import prepare

PYTHON_MIN = "3.11"

# Each layer is resolved under the pins of those above it, so that any two fit into one
# environment. What a user's server runs on chooses first.
LAYERS: dict[str, tuple[str, ...]] = {
    "server": ("pyproject.toml",),
    "s3": ("--group", "s3"),  # before others: it wants an old python-dateutil
    "spark": ("pyproject.toml", "--extra", "spark"),
    "lake": ("pyproject.toml", "--extra", "lake"),
    "connect": ("pyproject.toml", "--extra", "connect"),
    "dev": ("pyproject.toml", "--extra", "dev"),
    "build": ("--group", "build"),
    "java": ("--group", "java"),
    "docs": ("--group", "docs"),
    "bench": ("--group", "bench"),
    "locking": ("--group", "locking"),
    "spark-oldest": (
        *("pyproject.toml", "--extra", "lake", "--extra", "connect"),
        *("--group", "spark-oldest"),
    ),
}
# Layers that have other versions of the same packages, so that no environment holds both.
REPLACED = {"spark-oldest": ("spark", "lake", "connect")}


def write_locks(*, upgrade: bool) -> None:
    """Resolve every layer; pins that still fit pyproject.toml stay unless `upgrade` is set."""
    prepare(["locking"])
    for number, layer in enumerate(LAYERS, 1):
        say(f"[{number}/{len(LAYERS)}] resolving {layer} layer …")
        compile_lock(layer, upgrade=upgrade)


def compile_lock(layer: str, *, upgrade: bool) -> None:
    command = [
        str(VENV / "bin" / "uv"),
        *("pip", "compile", *LAYERS[layer]),
        *("--universal", "--python-version", PYTHON_MIN, "--generate-hashes", "--quiet"),
        *("--custom-compile-command", "make lock"),
        *("--output-file", f"{LOCKS.name}/{layer}.lock"),
        *(option for earlier in layers_before(layer) for option in constrain_to(earlier)),
        *(["--upgrade"] if upgrade else []),
    ]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:
        raise SetupFailed(f"uv could not resolve the {layer} layer; its reason stands above")


def layers_before(layer: str) -> list[str]:
    names = list(LAYERS)
    before = names[: names.index(layer)]
    return [name for name in before if name not in REPLACED.get(layer, ())]


def constrain_to(layer: str) -> tuple[str, str]:
    return "--constraint", f"{LOCKS.name}/{layer}.lock"
