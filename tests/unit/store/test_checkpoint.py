"""The checkpoint file."""

import struct
from pathlib import Path
from zlib import crc32

from emberq.store.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from emberq.store.disk import RealDisk


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    checkpoint = Checkpoint(
        log_timestamp_ms=1,
        queues_timestamp_ms=2,
        index_timestamp_ms=3,
        master_flushed_offset=4,
        confirmed_offset=5,
        dispatched_offset=6,
        is_marked=True,
    )

    write_checkpoint(RealDisk(), tmp_path / "checkpoint", checkpoint)

    content = (tmp_path / "checkpoint").read_bytes()
    fields = struct.pack(">6q", 1, 2, 3, 4, 5, 6)
    assert content == (fields + b"EmberQ\0\1" + crc32(fields).to_bytes(4, "big")).ljust(4096, b"\0")
    assert read_checkpoint(RealDisk(), tmp_path / "checkpoint") == checkpoint


def test_a_missing_or_short_file_promises_nothing(tmp_path: Path) -> None:
    assert read_checkpoint(RealDisk(), tmp_path / "checkpoint") == Checkpoint()

    (tmp_path / "checkpoint").write_bytes(b"")

    assert read_checkpoint(RealDisk(), tmp_path / "checkpoint") == Checkpoint()


def test_trust_ends_three_seconds_before_the_earlier_of_log_and_queues() -> None:
    checkpoint = Checkpoint(log_timestamp_ms=10_000, queues_timestamp_ms=9_000)

    assert checkpoint.safe_timestamp_ms == 6_000
    assert Checkpoint(log_timestamp_ms=10_000).safe_timestamp_ms == 0
    assert checkpoint.safe_index_timestamp_ms == 0


def test_a_checkpoint_that_an_official_broker_wrote_vouches_for_no_offset(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    write_checkpoint(RealDisk(), path, Checkpoint(dispatched_offset=600))
    assert read_checkpoint(RealDisk(), path).vouched_offset == 600

    with path.open("r+b") as file:  # it leaves alone what stands behind its fields
        file.write(struct.pack(">6q", 1, 2, 3, 4, 5, 700))

    checkpoint = read_checkpoint(RealDisk(), path)
    assert (checkpoint.dispatched_offset, checkpoint.vouched_offset) == (700, 0)
