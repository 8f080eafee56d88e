"""Again later, or a dead letter."""

import pytest

from emberq.broker.retries import retry_level, retry_limit
from emberq.protocol.versions import V3_4_9


def test_each_attempt_waits_a_level_longer() -> None:
    assert [retry_level(attempts, 16, 0) for attempts in (0, 1, 15)] == [3, 4, 18]


def test_a_level_that_is_asked_for_is_taken() -> None:
    assert retry_level(5, 16, 2) == 2


@pytest.mark.parametrize(("attempts", "limit", "level"), [(16, 16, 0), (17, 16, 3), (0, 16, -1)])
def test_too_many_attempts_or_a_negative_level_make_a_dead_letter(
    attempts: int, limit: int, level: int
) -> None:
    assert retry_level(attempts, limit, level) is None


def test_the_client_says_how_often_if_it_can() -> None:
    assert retry_limit(16, 3, V3_4_9) == 3
    assert retry_limit(16, 3, V3_4_9 - 1) == 16
    assert retry_limit(16, None, V3_4_9) == 16
