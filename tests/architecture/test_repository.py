"""Tidy rules of the repository as a whole: what its files may say, and what its locks hold."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import emberq
from tools.locking import LAYERS, REPLACED

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (".ci", "benchmarks", "docs", "examples", "requirements", "src", "tests", "tools")
SUFFIXES = {
    ".cfg",
    ".conf",
    ".java",
    ".json",
    ".lock",
    ".md",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".xml",
}
MAY_PRINT = ("examples/", "src/emberq/cli/", "src/emberq/testing/demo", "tools/", "benchmarks/")

# Written in pieces, so that this file does not contain what it looks for.
MACHINE_PATHS = re.compile("|".join(("/" + "work/", "/" + "root/", "/" + "home/", "/" + "Users/")))
REGISTRIES = re.compile(
    "|".join(
        (
            "index" + "-url",
            "pypi" + r"\.org/simple",
            "files" + r"\.pythonhosted\.org",
            "/" + "maven2",
            "/" + "artifactory",
            "GO" + "PROXY=",
        )
    )
)
TO_DO = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b(?!\(#\d+\))")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def our_files() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and not path.is_symlink())
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and (path.suffix in SUFFIXES or folder == ".ci"):
                yield path


def lines_that_match(pattern: re.Pattern[str], paths: Iterator[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in paths
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def python_files() -> Iterator[Path]:
    return (path for path in our_files() if path.suffix == ".py")


def test_only_commands_and_tools_print() -> None:
    silent = (
        path
        for path in python_files()
        if not path.relative_to(ROOT).as_posix().startswith((*MAY_PRINT, "tests/"))
    )

    assert lines_that_match(re.compile(r"^\s*print\("), silent) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert lines_that_match(MACHINE_PATHS, our_files()) == []


def test_no_file_names_a_package_registry() -> None:
    assert lines_that_match(REGISTRIES, our_files()) == []


def test_every_open_end_in_the_code_names_its_issue() -> None:
    assert lines_that_match(TO_DO, python_files()) == []


def test_the_package_says_the_version_of_pyproject() -> None:
    assert emberq.__version__ == PYPROJECT["project"]["version"]


def test_every_make_target_stands_in_make_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))
    declared = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    table = re.search(r"^define HELP\n(.+?)\nendef$", makefile, re.MULTILINE | re.DOTALL)

    assert declared is not None
    assert table is not None
    assert set(declared[1].split()) == targets
    assert set(re.findall(r"^make ([a-z-]+) ", table[1], re.MULTILINE)) == targets


def test_every_layer_has_a_lock_and_every_lock_a_layer() -> None:
    assert {path.stem for path in (ROOT / "requirements").glob("*.lock")} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_lock_pins_every_requirement_with_a_hash_and_no_address(layer: str) -> None:
    lock = (ROOT / "requirements" / f"{layer}.lock").read_text()
    requirements = [text for text in re.split(r"\n(?=[^\s#])", lock) if not text.startswith("#")]

    assert "://" not in lock
    assert requirements
    for requirement in requirements:
        assert re.match(r"[\w.-]+==\S+", requirement)
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", requirement)


def test_a_package_has_the_same_pins_in_every_lock_that_names_it() -> None:
    pins: dict[str, dict[str, set[str]]] = {}
    for layer in LAYERS:
        lock = (ROOT / "requirements" / f"{layer}.lock").read_text()
        for name, pin in re.findall(r"^([\w.-]+)==(.+?) ?\\$", lock, re.MULTILINE):
            if layer in REPLACED and name == "pyspark":  # what that layer is for
                continue
            version = pin.split(" ;")[0]
            pins.setdefault(name, {}).setdefault(layer, set()).add(version)

    differing = {name: by for name, by in pins.items() if len(set(map(frozenset, by.values()))) > 1}
    assert differing == {}


def test_the_build_layer_holds_what_the_build_asks_for() -> None:
    assert set(PYPROJECT["build-system"]["requires"]) <= set(
        PYPROJECT["dependency-groups"]["build"]
    )


def test_every_link_between_our_pages_leads_somewhere() -> None:
    pages = (path for path in our_files() if path.suffix == ".md")
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in LINK.findall(page.read_text())
        if "://" not in target and not target.startswith(("#", "mailto:"))
        if not (page.parent / target.partition("#")[0]).exists()
    ]

    assert broken == []
