import pytest

from emberq.broker import members
from emberq.broker.members import Client, ConsumerGroup, Consumers, GroupEvent, Manner
from emberq.model.subscription import (
    ConsumeFromWhere,
    ConsumeType,
    MessageModel,
    Subscription,
)

PUSH = Manner(
    ConsumeType.CONSUME_PASSIVELY,
    MessageModel.CLUSTERING,
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
)
BROADCAST = Manner(
    ConsumeType.CONSUME_PASSIVELY,
    MessageModel.BROADCASTING,
    ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
)


def client(connection: str, client_id: str | None = None, version: int = 513) -> Client:
    return Client(connection, client_id or f"id-{connection}", "JAVA", version)


def topics(*names: str, version: int = 1) -> list[Subscription]:
    return [Subscription(topic=name, expression="*", version=version) for name in names]


class Heard:
    """Events as a listener sees them."""

    def __init__(self, consumers: Consumers) -> None:
        self.events: list[tuple[str, GroupEvent]] = []
        consumers.on_change(self.hear)

    def hear(self, group: ConsumerGroup, event: GroupEvent) -> None:
        self.events.append((group.name, event))


def test_a_new_connection_is_a_change_and_its_repetition_is_none() -> None:
    consumers = Consumers()
    heard = Heard(consumers)

    assert consumers.register("G", client("a"), PUSH, topics("T"), 100)
    assert not consumers.register("G", client("a"), PUSH, topics("T"), 200)

    assert heard.events == [("G", GroupEvent.JOINED)]
    group = consumers.get("G")
    assert group is not None
    assert group.client_ids() == ["id-a"]
    assert group.members["a"].seen_at_ms == 200


def test_two_connections_may_carry_one_client_id() -> None:
    consumers = Consumers()

    consumers.register("G", client("a", "same"), PUSH, topics("T"), 0)
    consumers.register("G", client("b", "same"), PUSH, topics("T"), 0)

    group = consumers.get("G")
    assert group is not None
    assert group.client_ids() == ["same", "same"]
    consumers.connection_closed("a")
    assert group.client_ids() == ["same"]


def test_another_client_id_on_a_known_connection_replaces_it_without_a_change() -> None:
    consumers = Consumers()
    consumers.register("G", client("a", "old"), PUSH, topics("T"), 0)

    assert not consumers.register("G", client("a", "new"), PUSH, topics("T"), 0)

    group = consumers.get("G")
    assert group is not None
    assert group.client_ids() == ["new"]
    assert consumers.member("G", "old") is None


def test_added_and_removed_topics_are_changes() -> None:
    consumers = Consumers()
    consumers.register("G", client("a"), PUSH, topics("T"), 0)

    assert consumers.register("G", client("a"), PUSH, topics("T", "U"), 0)
    assert consumers.groups_subscribing("U") == {"G"}
    assert consumers.register("G", client("a"), PUSH, topics("U"), 0)
    assert consumers.groups_subscribing("T") == set()
    assert consumers.subscription("G", "T") is None


def test_a_newer_subscription_is_stored_without_a_change_and_an_older_one_is_not() -> None:
    consumers = Consumers()
    consumers.register("G", client("a"), PUSH, topics("T", version=5), 0)

    assert not consumers.register("G", client("a"), PUSH, topics("T", version=7), 0)
    assert consumers.register("G", client("b"), PUSH, topics("T", version=6), 0)  # b is new

    kept = consumers.subscription("G", "T")
    assert kept is not None
    assert kept.version == 7


def test_members_with_different_subscriptions_overwrite_each_other() -> None:
    consumers = Consumers()
    consumers.register("G", client("a"), PUSH, topics("T"), 0)
    consumers.register("G", client("b"), PUSH, topics("U"), 0)

    assert consumers.subscription("G", "T") is None
    assert consumers.register("G", client("a"), PUSH, topics("T"), 0)
    assert consumers.subscription("G", "U") is None


def test_a_heartbeat_without_subscriptions_keeps_those_that_are_there() -> None:
    consumers = Consumers()
    consumers.register("G", client("a"), PUSH, topics("T"), 0)

    assert not consumers.register("G", client("a"), PUSH, None, 0)
    assert consumers.register("G", client("b"), PUSH, None, 0)

    assert consumers.subscription("G", "T") is not None


def test_the_member_that_spoke_last_says_how_the_group_consumes() -> None:
    consumers = Consumers()
    consumers.register("G", client("a"), PUSH, topics("T"), 0)
    group = consumers.get("G")
    assert group is not None
    before = group.revision

    assert not consumers.register("G", client("a"), BROADCAST, topics("T"), 0)

    assert group.message_model is MessageModel.BROADCASTING
    assert group.revision > before


def test_a_closed_connection_leaves_all_its_groups_and_nobody_elses() -> None:
    consumers = Consumers()
    for name in ("G", "H"):
        consumers.register(name, client("a"), PUSH, topics("T"), 0)
    consumers.register("G", client("b"), PUSH, topics("T"), 0)
    heard = Heard(consumers)

    assert consumers.connection_closed("a") == ["G", "H"]

    assert heard.events == [("G", GroupEvent.LEFT), ("H", GroupEvent.EMPTIED)]
    assert consumers.get("H") is None
    assert consumers.groups_subscribing("T") == {"G"}
    assert consumers.connection_closed("a") == []


def test_unregistering_takes_a_client_out_of_one_group() -> None:
    consumers = Consumers()
    for name in ("G", "H"):
        consumers.register(name, client("a"), PUSH, topics("T"), 0)

    assert consumers.unregister("G", "a")
    assert not consumers.unregister("G", "a")
    assert not consumers.unregister("unknown", "a")

    assert consumers.groups_of("a") == {"H"}


def test_silent_members_expire_and_others_stay() -> None:
    consumers = Consumers()
    consumers.register("G", client("a"), PUSH, topics("T"), 0)
    consumers.register("G", client("b"), PUSH, topics("T"), 50)

    assert consumers.expire(120, silence_max_ms=120) == []
    expired = consumers.expire(121, silence_max_ms=120)

    assert [member.client_id for member in expired] == ["id-a"]
    group = consumers.get("G")
    assert group is not None
    assert group.client_ids() == ["id-b"]


def test_what_pulls_carried_is_known_until_it_is_too_old() -> None:
    consumers = Consumers()
    carried = Subscription(topic="T", expression="TagA")
    consumers.note_carried("g", "T", carried, now_ms=1_000)

    known = consumers.subscription("g", "T")
    assert known is not None
    assert (known.expression, known.version) == ("TagA", 1_000)
    assert consumers.get("g") is None
    consumers.expire_carried(now_ms=2_000, age_max_ms=1_000)
    assert consumers.subscription("g", "T") is not None
    consumers.expire_carried(now_ms=2_001, age_max_ms=1_000)

    assert consumers.subscription("g", "T") is None


def test_only_so_much_of_what_pulls_carry_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "CARRIED_MAX", 2)
    consumers = Consumers()

    for number in range(3):
        consumers.note_carried(f"g{number}", "T", Subscription(topic="T"), now_ms=1)

    assert [consumers.subscription(f"g{n}", "T") is None for n in range(3)] == [False, False, True]
