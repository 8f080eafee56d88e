"""Whatever a tool sends is answered, or is a typed error that becomes an answer."""

import asyncio
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emberq.errors import ProtocolError
from emberq.protocol.codes import RequestCode
from tests.unit.broker.administered import Administered

pytestmark = pytest.mark.property

CODES = (17, 18, 21, 200, 201, 202, 207, 208, 215, 225, 303, 305, 315, 317, 351, 352, 353)
FIELDS = (
    *("topic", "group", "groupName", "consumerGroup", "topicList", "attributes", "order", "perm"),
    *("readQueueNums", "writeQueueNums", "topicFilterType", "topicSysFlag", "dataVersion"),
    *("topicSeq", "maxTopicNum", "groupSeq", "maxGroupNum", "readable", "statsName", "statsKey"),
)
VALUES = st.one_of(
    st.sampled_from(("T", "G", "T;U", "T@G", "SINGLE_TAG", "TOPIC_PUT_NUMS", "true", "{}")),
    st.sampled_from(("+message.type=FIFO,-message.type", "+reserve.time=9", "-a", "+=", ",")),
    st.integers(-3, 70_000).map(str),
    st.text(st.characters(), max_size=12),  # halves of characters too
)
CONFIGS = st.dictionaries(
    st.sampled_from(
        (
            *("topicName", "groupName", "attributes", "readQueueNums", "perm", "retryQueueNums"),
            *("topicFilterType", "groupRetryPolicy", "subscriptionDataSet", "consumeEnable"),
        )
    ),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(-3, 70_000), st.text(max_size=8)),
        lambda inner: st.one_of(
            st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=4), inner, max_size=2)
        ),
        max_leaves=4,
    ),
)
BODIES = st.one_of(
    st.binary(max_size=20),
    CONFIGS.map(lambda config: json.dumps(config).encode()),
    st.lists(CONFIGS, max_size=2).map(
        lambda configs: json.dumps(
            {"topicConfigList": configs, "groupConfigList": configs}
        ).encode()
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from(CODES),
            st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8),
            BODIES,
        ),
        max_size=6,
    )
)
def test_every_request_of_a_tool_is_answered(
    requests: list[tuple[int, dict[str, str], bytes]],
) -> None:
    async def ask_all(home: Path) -> None:
        broker = Administered(home)
        for code, fields, body in requests:
            try:
                answer = await broker.ask(code, body, **fields)
            except ProtocolError:
                continue  # the sender is told so, with code 1
            assert answer.code in (0, 1, 17, 26, 29), (RequestCode(code), answer)
        assert all(topic.name == name for name, topic in broker.topics.all().items())
        assert all(group.name == name for name, group in broker.groups.all().items())
        await broker.persistence.close()

    with tempfile.TemporaryDirectory() as home:
        asyncio.run(ask_all(Path(home)))
