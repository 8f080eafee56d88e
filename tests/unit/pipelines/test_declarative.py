"""Projects of declarative pipelines as files: what is written for which topics."""

import ast
import keyword
from pathlib import Path

import pytest
import yaml

from emberq.errors import MessageRefused, PipelineError
from emberq.pipelines.declarative import SPEC_FILE, table_names, write_project

ODD = ["2024-orders", "class", "%DLQ%billing", "orders-a", "orders_a", "Orders_A", "--", "dp"]


@pytest.mark.parametrize("topic", ODD)
def test_every_topic_makes_valid_python(tmp_path: Path, topic: str) -> None:
    write_project(tmp_path / "shop", [topic], "127.0.0.1:9876")

    (source,) = (tmp_path / "shop" / "transformations").glob("*.py")
    nodes = ast.walk(ast.parse(source.read_text()))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    assert {topic, "127.0.0.1:9876", source.stem} <= texts


def test_names_of_tables_are_words_that_need_no_quotes() -> None:
    for names in table_names(ODD).values():
        for name in names:
            assert name.isidentifier()
            assert not keyword.iskeyword(name)


def test_no_table_takes_the_name_of_another(tmp_path: Path) -> None:
    topics = [*ODD, "orders_a_2", "orders", "orders_per_hour", "orders"]
    names = [name for pair in table_names(topics).values() for name in pair]

    written = write_project(tmp_path, topics, "127.0.0.1:9876")

    assert len(set(names)) == len(names) == 2 * (len(topics) - 1)
    assert len(set(written)) == len(written) == len(names) + 1


def test_a_plain_topic_has_a_table_of_its_name() -> None:
    assert table_names(["orders"]) == {"orders": ("orders", "orders_per_hour")}


def test_the_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / "2024: shop #1"

    write_project(folder, ["orders"], "127.0.0.1:9876")

    spec = yaml.safe_load((folder / SPEC_FILE).read_text())
    assert spec["name"] == "2024: shop #1"
    assert spec["storage"].startswith("file:///")


def test_a_name_that_no_topic_has_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(MessageRefused, match="letters, digits"):
        write_project(tmp_path / "shop", ["orders", 'a"b'], "127.0.0.1:9876")

    assert not (tmp_path / "shop").exists()


def test_a_project_is_not_overwritten(tmp_path: Path) -> None:
    write_project(tmp_path, ["orders"], "127.0.0.1:9876")

    with pytest.raises(PipelineError, match="choose another folder"):
        write_project(tmp_path, ["orders"], "127.0.0.1:9876")
