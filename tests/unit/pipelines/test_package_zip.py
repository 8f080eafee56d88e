"""What is in the zip that travels: EmberQ, and what its user adds."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from emberq.errors import ConfigError
from emberq.pipelines.package_zip import added_modules, build_zip


def names_in(package: Path) -> list[str]:
    return zipfile.ZipFile(package).namelist()


def test_the_package_is_plain_python_and_whole(tmp_path: Path) -> None:
    names = names_in(build_zip(tmp_path / "emberq.zip"))

    assert {"emberq/__init__.py", "emberq/spark/source.py", "pyspark_rocketmq/__init__.py"} <= {
        *names
    }
    assert not [name for name in names if name.endswith((".so", ".pyc", ".c", ".pyx"))]


def test_modules_packages_and_zips_are_imported_from_it(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text("LIMIT = 900")
    shop = tmp_path / "shop"
    (shop / "__pycache__").mkdir(parents=True)
    (shop / "__pycache__" / "orders.pyc").touch()
    (shop / "__init__.py").touch()
    (shop / "orders.py").write_text("TOPIC = 'orders'")
    with zipfile.ZipFile(tmp_path / "more.zip", "w") as more:
        more.writestr("prices/__init__.py", "CURRENCY = 'EUR'")

    package = build_zip(
        tmp_path / "emberq.zip", [tmp_path / "rules.py", shop, tmp_path / "more.zip"]
    )

    program = "import rules, shop.orders, prices; print(rules.LIMIT, shop.orders.TOPIC)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = [{str(package)!r}]; {program}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "900 orders\n", done.stderr
    assert "shop/__pycache__/orders.pyc" not in names_in(package)
    assert added_modules(package) == ["prices", "rules", "shop"]


def test_a_file_that_is_no_module_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").touch()

    with pytest.raises(ConfigError, match=r"rules.txt: expected a module"):
        build_zip(tmp_path / "emberq.zip", [tmp_path / "rules.txt"])


def test_two_files_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rules.py").touch()

    with pytest.raises(ConfigError, match=r"rules.py is in the package already"):
        build_zip(tmp_path / "emberq.zip", [tmp_path / "rules.py"] * 2)
