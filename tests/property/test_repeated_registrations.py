"""A table that is spared what it knows already, beside one that is told everything."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from emberq.model.data_version import DataVersion
from emberq.model.route import QueueData
from emberq.model.static_topic import StaticTopicMapping
from emberq.model.topic import TopicConfig
from emberq.nameserver.route_table import Registration, RegistrationRefused, RouteTable

pytestmark = pytest.mark.property

TOPICS = ["T1", "T2", "T3"]
NAMES = ["a", "b"]
ADDRESSES = ["h1:1", "h2:1"]
# Few of everything, so that stories meet themselves again.
BODY_COUNT = 2

bodies: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    version=st.builds(DataVersion, counter=st.integers(0, 1), state_version=st.integers(0, 1)),
    topics=st.dictionaries(
        st.sampled_from(TOPICS),
        st.builds(TopicConfig, read_queue_count=st.sampled_from([4, 8])),
        min_size=2,  # a broker that begins with a single one is refused
    ),
    queue_mappings=st.dictionaries(
        st.sampled_from(TOPICS),
        st.builds(StaticTopicMapping, broker_name=st.sampled_from([None, "b"])),
        max_size=1,
    ),
    filter_servers=st.sampled_from([None, [], ["f:1"]]),
)
headers: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    cluster=st.just("C1"),
    broker_name=st.sampled_from(NAMES),
    broker_id=st.sampled_from([0, 0, 1]),
    address=st.sampled_from(ADDRESSES),
    is_acting_master_enabled=st.sampled_from([None, True]),
)
steps = st.one_of(
    st.tuples(st.just("register"), headers, st.integers(0, BODY_COUNT - 1)),
    st.tuples(st.just("again"), st.integers(0, 2)),
    st.tuples(st.just("again"), st.integers(0, 2)),
    st.tuples(st.just("close"), st.sampled_from(ADDRESSES)),
    st.tuples(st.just("delete_topic"), st.sampled_from(TOPICS), st.none()),
    st.tuples(st.just("register_topic"), st.sampled_from(TOPICS), st.sampled_from(NAMES)),
    st.tuples(st.just("wipe_write_permission"), st.sampled_from(NAMES)),
)


def register(table: RouteTable, said: Registration, *, spares: bool) -> Any:
    if spares and said.fingerprint is not None:
        version = table.repeated_version(
            said.key, said.broker_name, said.broker_id, said.fingerprint
        )
        if version is not None:
            said = structs.replace(
                said,
                version=version,
                topics={},
                queue_mappings={},
                filter_servers=None,
                is_repetition=True,
            )
    try:
        return table.register(said, said.address, 0)
    except RegistrationRefused:
        return None


def apply(table: RouteTable, step: Any, said_in: list[dict[str, Any]], *, spares: bool) -> Any:
    match step:
        case ("register", header, number):
            fingerprint = str(number).encode()
            said = Registration(**header, **said_in[number], fingerprint=fingerprint)
            return register(table, said, spares=spares)
        case ("close", connection):
            return table.unregister(table.connection_closed(connection))
        case ("delete_topic", topic, cluster):
            return table.delete_topic(topic, cluster)
        case ("register_topic", topic, name):
            return table.register_topic(topic, [QueueData(broker_name=name)])
        case (operation, name):
            return getattr(table, operation)(name)


def view(table: RouteTable) -> Any:
    lives = {
        key: (live.broker_name, live.broker_id, live.version, live.connection)
        for key, live in table._live.items()
    }
    return [table.route(topic) for topic in TOPICS], lives, table._clusters, table._groups


@settings(max_examples=300)
@given(
    said_in=st.lists(bodies, min_size=BODY_COUNT, max_size=BODY_COUNT),
    story=st.lists(steps, max_size=30),
)
def test_a_known_table_that_is_not_read_again_changes_nothing(
    said_in: list[dict[str, Any]], story: list[Any]
) -> None:
    told, spared = RouteTable(), RouteTable()
    registered: list[Any] = []

    for drawn in story:
        step = drawn
        if drawn[0] == "again":  # one of the last few brokers sends what it sent before
            if drawn[1] >= len(registered):
                continue
            step = registered[-1 - drawn[1]]
        elif drawn[0] == "register":
            registered.append(drawn)
        outcome = apply(told, step, said_in, spares=False)

        assert apply(spared, step, said_in, spares=True) == outcome
        assert view(spared) == view(told)
