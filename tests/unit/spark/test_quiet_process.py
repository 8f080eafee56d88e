"""Processes of Spark's tell a JVM that has hung up from failures."""

import io
import socket

import pytest

from emberq.spark.quiet_process import ends_quietly, is_hang_up, leaves_at_once

serializers = pytest.importorskip("pyspark.serializers")


@pytest.mark.parametrize("error", [BrokenPipeError, ConnectionResetError])
def test_a_reader_that_hangs_up_ends_a_worker_without_a_word(error: type[OSError]) -> None:
    def serve(connection: socket.socket, is_known: bool) -> int:
        raise error

    with socket.socket() as connection:
        assert ends_quietly(serve)(connection, False) == 1


def test_all_else_is_as_it_was() -> None:
    def serve(connection: socket.socket, is_known: bool) -> int:
        if is_known:
            raise ValueError("a failure")
        return 7

    with socket.socket() as connection:
        assert ends_quietly(serve)(connection, False) == 7
        with pytest.raises(ValueError, match="a failure"):
            ends_quietly(serve)(connection, True)


def failure(content: bytes) -> EOFError:
    try:
        serializers.read_int(io.BytesIO(content))
    except EOFError as error:
        return error
    raise AssertionError("there was a number")


def test_a_call_that_never_comes_is_told_from_a_source_that_reads_too_far() -> None:
    assert is_hang_up(failure(b""))
    assert not is_hang_up(EOFError("of a source"))
    assert not is_hang_up(ValueError())


def test_the_jvm_is_told_of_all_failures_but_its_own_hanging_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[BaseException] = []

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    tell = leaves_at_once(lambda error, _: told.append(error))

    tell(ValueError("a failure"), None)
    assert len(told) == 1
    with pytest.raises(SystemExit) as left:
        tell(failure(b""), None)
    assert left.value.code == 0
    assert len(told) == 1
