"""Reads in threads."""

import threading

from emberq.broker.cold_reads import ColdReads
from tests.support.waiting import DEADLINE_S, until


async def test_results_and_failures_come_back_to_the_loop() -> None:
    reads = ColdReads()
    loop_thread, results = threading.current_thread(), []

    def done(result: object) -> None:
        assert threading.current_thread() is loop_thread
        results.append(result)

    reads.start(lambda: threading.current_thread() is loop_thread, done)
    await until(lambda: len(results) == 1)
    reads.start(lambda: 1 // 0, done)
    await until(lambda: len(results) == 2)
    reads.close()

    assert results[0] is False
    assert isinstance(results[1], ZeroDivisionError)
    assert reads.count == 0


async def test_more_than_the_limit_is_full() -> None:
    reads = ColdReads(threads_max=1, waiting_max=2)
    gate = threading.Event()
    results: list[object] = []

    for _ in range(2):
        assert not reads.is_full
        reads.start(gate.wait, results.append)
    assert reads.is_full
    gate.set()
    await until(lambda: len(results) == 2)
    reads.close()

    assert not reads.is_full


async def test_nothing_reads_any_more_when_it_is_closed() -> None:
    reads = ColdReads(threads_max=1)
    began, finished = threading.Event(), []

    def read() -> None:
        began.set()
        finished.append(threading.current_thread())

    reads.start(read, lambda _: None)
    assert began.wait(DEADLINE_S)
    reads.close()

    assert [thread.is_alive() for thread in finished] == [False]
