"""Who waits for a program lets it end in its own way."""

import logging
import os
import signal
import sys
from threading import Thread

import pytest

from emberq.pipelines.interrupts import quiet_interrupts, run_to_its_end

INTERRUPT = "import os, signal; os.kill(os.getppid(), signal.SIGINT)"


@pytest.mark.parametrize(("code", "is_shielded"), [(0, True), (3, True), (3, False)])
def test_an_interrupted_program_is_waited_for(code: int, is_shielded: bool) -> None:
    said: list[str] = []
    program = [sys.executable, "-c", f"{INTERRUPT}; raise SystemExit({code})"]

    found = run_to_its_end(program, os.environ, None, said.append, is_shielded=is_shielded)

    assert found == code
    assert said == ["stopping; Ctrl-C once more does not wait for the job"] * is_shielded


def test_a_second_interrupt_ends_the_program() -> None:
    said: list[str] = []
    again = f"while True:\n {INTERRUPT}\n select.select([], [], [], 0.02)"
    program = [sys.executable, "-c", f"import select\n{again}"]

    code = run_to_its_end(program, os.environ, None, said.append, is_shielded=True)

    assert code == 143  # as shells have it: 128 and SIGTERM
    assert len(said) == 1


def test_a_shielded_program_ignores_interrupts() -> None:
    program = [sys.executable, "-c", "import signal; raise SystemExit(signal.getsignal(2).value)"]

    code = run_to_its_end(program, os.environ, None, print, is_shielded=True)

    assert code == 1  # signal.SIG_IGN


def test_in_another_thread_the_exit_code_is_the_same() -> None:
    codes: list[int] = []
    program = [sys.executable, "-c", "raise SystemExit(3)"]

    def run() -> None:
        codes.append(run_to_its_end(program, os.environ, None, print, is_shielded=True))

    thread = Thread(target=run)
    thread.start()
    thread.join()

    assert codes == [3]


def test_an_interrupt_counts_also_when_cleaning_up_behind_it_fails() -> None:
    def interrupted() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            raise OSError("the connection is gone")

    with pytest.raises(KeyboardInterrupt) as raised, quiet_interrupts():
        interrupted()

    assert isinstance(raised.value.__cause__, OSError)
    with pytest.raises(OSError, match="its own"), quiet_interrupts():
        raise OSError("its own")


def break_off() -> None:
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        logging.error("a call was broken off")


def test_an_interrupt_in_a_session_raises_and_logs_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = signal.getsignal(signal.SIGINT)

    def of_pyspark(*_: object) -> None:
        logging.error("cancelling in the middle of a call")

    signal.signal(signal.SIGINT, of_pyspark)
    try:
        with pytest.raises(KeyboardInterrupt), quiet_interrupts():
            break_off()
        assert caplog.messages == []
        logging.error("told again")
        assert caplog.messages == ["told again"]
        assert signal.getsignal(signal.SIGINT) is of_pyspark
    finally:
        signal.signal(signal.SIGINT, before)
