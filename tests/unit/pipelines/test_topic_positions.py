"""What options say of several topics, for each of them alone."""

import msgspec
import pytest

from emberq.model.queue import MessageQueue
from emberq.pipelines.topic_positions import options_of_topic
from emberq.spark.options import parse_source

TOPICS = ("orders", "refunds")
OFFSETS = {"@version": 1, "orders": {"broker-a": {"0": 12}}, "refunds": {"broker-a": {"0": 7}}}
TIMES = {"orders": 1_763_337_600_000, "refunds": {"broker-a": {"0": 1}}}


def given(name: str, value: object) -> dict[str, str]:
    return {name: msgspec.json.encode(value).decode(), "tags": "new", "subscribe": "elsewhere"}


@pytest.mark.parametrize(
    "name", ["startingOffsets", "startingoffsets", "endingOffsets", "ENDINGOFFSETS"]
)
def test_offsets_of_other_topics_are_cut_out(name: str) -> None:
    options = parse_source(options_of_topic(given(name, OFFSETS), "refunds", TOPICS))

    position = options.start if name.lower().startswith("starting") else options.end
    assert position is not None
    assert position.offsets == {MessageQueue("broker-a", 0, "refunds"): 7}
    assert (options.topics, options.expression) == (("refunds",), "new")


@pytest.mark.parametrize("name", ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
def test_times_of_other_topics_are_cut_out(name: str) -> None:
    options = parse_source(options_of_topic(given(name, TIMES), "orders", TOPICS))

    position = options.start if name.startswith("starting") else options.end
    assert position is not None
    assert position.times_ms == {"orders": 1_763_337_600_000}


def test_a_topic_that_is_not_spoken_of_begins_as_it_does_beside_the_others() -> None:
    options = options_of_topic(given("startingOffsets", {"orders": {}}), "refunds", TOPICS)

    assert options["startingOffsets"] == "{}"


def test_names_of_no_topic_stay_and_are_refused_by_the_source() -> None:
    table = {"orders": {}, "ordres": {"broker-a": {"0": 1}}}

    options = options_of_topic(given("startingOffsets", table), "orders", TOPICS)

    assert msgspec.json.decode(options["startingOffsets"]) == table


@pytest.mark.parametrize("text", ["earliest", "group", '{"orders": ', "[1]"])
def test_what_is_no_table_stays_as_it_is(text: str) -> None:
    assert options_of_topic({"startingOffsets": text}, "orders", TOPICS) == {
        "startingOffsets": text,
        "subscribe": "orders",
    }
