from emberq.broker.members import Client
from emberq.broker.producers import PICK_TRIES_MAX, Producers


def client(connection: str, client_id: str | None = None) -> Client:
    return Client(connection, client_id or f"id-{connection}", "JAVA", 513)


def test_a_producer_is_found_by_group_and_by_client_id() -> None:
    producers = Producers()

    assert producers.register("P", client("a"), 100)
    assert not producers.register("P", client("a"), 200)

    assert [member.seen_at_ms for member in producers.members("P")] == [200]
    found = producers.by_client_id("id-a")
    assert found is not None
    assert found.connection == "a"


def test_a_group_lives_as_long_as_its_members() -> None:
    producers = Producers()
    producers.register("P", client("a"), 0)
    producers.register("P", client("b"), 0)

    assert producers.connection_closed("a") == ["P"]
    assert producers.groups() == ["P"]
    assert producers.unregister("P", "b")
    assert not producers.unregister("P", "b")

    assert producers.groups() == []
    assert producers.by_client_id("id-b") is None


def test_a_client_id_that_came_back_on_a_new_connection_survives_the_end_of_the_old_one() -> None:
    producers = Producers()
    producers.register("P", client("old", "id"), 0)
    producers.register("P", client("new", "id"), 0)

    producers.connection_closed("old")

    found = producers.by_client_id("id")
    assert found is not None
    assert found.connection == "new"


def test_a_client_stays_known_while_it_is_in_another_group() -> None:
    producers = Producers()
    producers.register("P", client("a"), 0)
    producers.register("Q", client("a"), 0)

    producers.unregister("P", "a")
    assert producers.by_client_id("id-a") is not None
    producers.unregister("Q", "a")
    assert producers.by_client_id("id-a") is None


def test_another_client_id_on_a_known_connection_replaces_it() -> None:
    producers = Producers()
    producers.register("P", client("a", "old"), 0)

    producers.register("P", client("a", "new"), 0)

    assert producers.by_client_id("old") is None
    assert producers.by_client_id("new") is not None


def test_members_are_picked_in_turn() -> None:
    producers = Producers()
    for name in "abc":
        producers.register("P", client(name), 0)

    picked = [producers.pick("P") for _ in range(6)]

    assert sorted(member.client_id for member in picked if member) == sorted(
        2 * ["id-a", "id-b", "id-c"]
    )
    assert producers.pick("unknown") is None


def test_picking_gives_up_after_a_few_members_that_cannot_be_used() -> None:
    producers = Producers()
    for number in range(10):
        producers.register("P", client(str(number)), 0)
    asked: list[object] = []

    def is_usable(connection: object) -> bool:
        asked.append(connection)
        return False

    assert producers.pick("P", is_usable) is None
    assert len(asked) == PICK_TRIES_MAX


def test_silent_producers_expire() -> None:
    producers = Producers()
    producers.register("P", client("a"), 0)
    producers.register("P", client("b"), 50)

    assert [member.connection for member in producers.expire(121, silence_max_ms=120)] == ["a"]
    assert [member.connection for member in producers.members("P")] == ["b"]
