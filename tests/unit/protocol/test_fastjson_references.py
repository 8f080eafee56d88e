"""References: shared objects come back, cycles and bombs do not."""

import json

import pytest

from emberq.errors import ProtocolError
from emberq.protocol.fastjson import read_json
from emberq.protocol.fastjson_references import REFERENCE_COUNT_MAX


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("$.a", {"x": [{"y": 1}], "p.q": 2}),
        ("$.a.x", [{"y": 1}]),
        ("$.a.x[0]", {"y": 1}),
        ("$.a.x[0].y", 1),
        ("$['a'].x", [{"y": 1}]),
        ("$.a.p\\.q", 2),
    ],
)
def test_a_path_leads_to_the_object(path: str, target: object) -> None:
    document = {"a": {"x": [{"y": 1}], "p.q": 2}, "b": {"$ref": path}}

    assert read_json(json.dumps(document))["b"] == target


def test_references_are_found_in_the_dialect_too() -> None:
    assert read_json(b'{0:[1],1:{"$ref":"$.0"}}') == {"0": [1], "1": [1]}


@pytest.mark.parametrize("path", ["$", "..", "@", "$.a", "$.a.b", "$.a.b.c"])
def test_a_reference_to_an_ancestor_is_refused(path: str) -> None:
    with pytest.raises(ProtocolError):
        read_json(json.dumps({"a": {"b": {"c": {"$ref": path}}}}))


@pytest.mark.parametrize("path", ["$.z", "$.a[0]", "$.a.b", "$.a[", "$..", "$.l[9]", "$[0]"])
def test_a_path_that_leads_nowhere_is_refused(path: str) -> None:
    with pytest.raises(ProtocolError):
        read_json(json.dumps({"a": 1, "l": [], "r": {"$ref": path}}))


def test_a_document_that_is_only_a_reference_is_refused() -> None:
    with pytest.raises(ProtocolError):
        read_json(b'{"$ref":"$"}')


@pytest.mark.parametrize(
    "member", [{"$ref": "$", "b": 1}, {"$ref": "text"}, {"$ref": ""}, {"$ref": "$x"}, {"$ref": 1}]
)
def test_a_member_of_that_name_that_holds_no_path_is_no_reference(member: object) -> None:
    assert read_json(json.dumps({"a": member})) == {"a": member}


def test_a_few_references_cannot_stand_for_a_tree_larger_than_memory() -> None:
    levels = {"l0": [0] * 10}
    document: dict[str, object] = dict(levels)
    for level in range(1, 40):
        document[f"l{level}"] = [{"$ref": f"$.l{level - 1}"}] * 10

    with pytest.raises(ProtocolError, match="limit"):
        read_json(json.dumps(document))


def test_more_references_than_the_limit_are_refused() -> None:
    document = {"a": {}, "b": [{"$ref": "$.a"}] * (REFERENCE_COUNT_MAX + 1)}

    with pytest.raises(ProtocolError, match="references"):
        read_json(json.dumps(document))
