"""Official producers and consumers find official brokers through our name server."""

from pathlib import Path

import pytest

from tests.interop.harness.clients import (
    CLIENT_TIMEOUT_S,
    received_keys,
    send_messages,
    start_push_consumer,
)
from tests.interop.harness.cluster import Cluster
from tests.interop.harness.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

MESSAGES = 20


def test_a_producer_and_a_push_consumer_meet_through_our_name_server(
    cluster: Cluster, home: Path
) -> None:
    name_server, topic = cluster.emberq.address, "ThroughEmberq"

    # The topic does not exist yet: the producer must find it through the route of TBW102.
    sent = send_messages(cluster.line, home / "producer", name_server, topic, MESSAGES)
    with start_push_consumer(
        cluster.line, home / "consumer", name_server, "through-emberq", topic
    ) as consumer:
        keys = eventually(
            lambda: received_keys(consumer),
            lambda got: len(got) >= MESSAGES,
            CLIENT_TIMEOUT_S,
        )

    assert [text.split()[2:4] for text in sent] == [["SEND_OK", "brk-a"]] * MESSAGES
    assert keys == {f"key-{number}" for number in range(MESSAGES)}
