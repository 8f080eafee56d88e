"""Batches of the Spark sink in which somebody is killed; all rounds: tests/crash/sink_rounds.py."""

from pathlib import Path
from random import Random

import pytest

from emberq.spark import transactional_delivery
from emberq.spark.row_sending import Task
from emberq.spark.sink_options import parse_sink
from emberq.spark.transactional_delivery import TransactionalDelivery
from tests.support.sink_kills import SinkKills
from tests.support.sink_process import batches
from tests.support.waiting import until

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

SETTLED_WITHIN_S = 120.0
# Asked about all the time, and not given up before somebody is there to answer.
HASTY = {
    "transactionTimeOut": "300",
    "transactionCheckInterval": "300",
    "transactionCheckMax": "1000",
}


def test_at_least_once_loses_nothing_when_driver_or_broker_are_killed(tmp_path: Path) -> None:
    with SinkKills(tmp_path, Random(7), "at-least-once") as kills:
        kills.run("driver", "send")
        kills.run("broker", "send")

        kills.check(kills.seen())


def test_an_idempotent_batch_is_there_once_whoever_is_killed(tmp_path: Path) -> None:
    with SinkKills(tmp_path, Random(7), "idempotent") as kills:
        kills.run("driver", "once")
        kills.run("broker", "once")
        kills.run("broker", "behind")

        kills.check(kills.seen())


def test_a_transactional_batch_is_there_once_whoever_is_killed(tmp_path: Path) -> None:
    with SinkKills(tmp_path, Random(7), "transactional") as kills:
        kills.run("task")
        kills.run("driver", "end")
        kills.run("broker", "end")

        kills.check(kills.seen())


async def test_a_batch_whose_driver_died_behind_its_commit_is_finished_by_whoever_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_delivery, "LEASE_S", 1.0)
    with SinkKills(tmp_path, Random(7), "transactional", **HASTY) as kills:
        kills.attempt("driver", "end", 20)
        kills.batch += 1
        assert 0 < len(kills.seen()) < len(kills.wanted())

        # Another task of the same group, anywhere.
        other = TransactionalDelivery(parse_sink(kills.options))
        other.abort([other.write(batches(["never"], 1), Task("another", 0, 0))])
        await until(lambda: len(kills.seen()) == len(kills.wanted()), SETTLED_WITHIN_S)

        kills.check(kills.seen())
