"""Tag codes of heartbeats."""

from emberq.model.subscription import SQL92_EXPRESSION, Subscription
from emberq.protocol.bodies.codec import decode_body
from emberq.protocol.bodies.heartbeat import Heartbeat, with_own_tag_codes


def test_tag_codes_are_recomputed_from_the_tags() -> None:
    from_go = Subscription(topic="T", tags=["TagA", "TagB", "标"], tag_codes=[1, 2, 3])

    assert with_own_tag_codes(from_go).tag_codes == [2598919, 2598920, 0x6807]


def test_a_sql_subscription_has_no_tags_to_hash() -> None:
    sql = Subscription(topic="T", expression_type=SQL92_EXPRESSION, tag_codes=[7])

    assert with_own_tag_codes(sql) is sql


def test_a_heartbeat_of_a_go_client_is_read() -> None:
    text = (
        b'{"clientID":"10.0.0.3@1","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{'
        b'"groupName":"g","consumeType":"CONSUME_PASSIVELY","messageModel":"CLUSTERING",'
        b'"consumeFromWhere":"CONSUME_FROM_FIRST_OFFSET","subscriptionDataSet":[{'
        b'"classFilterMode":false,"topic":"T1","subString":"TagA","tagsSet":["TagA"],'
        b'"codeSet":["2598919"],"subVersion":1700000000001000000,"expressionType":"TAG"}],'
        b'"unitMode":false}]}'
    )

    subscription = decode_body(Heartbeat, text).consumers[0].subscriptions[0]

    assert subscription.tag_codes == [2598919]
    assert subscription.version == 1_700_000_000_001_000_000
