"""Frames: what one read of a busy connection costs, and writing an answer."""

import pyperf  # type: ignore[import-untyped] # it has no annotations

from emberq.protocol.command import Command, answer, new_request
from emberq.protocol.frame import FrameDecoder, encode_frame, success_frame

FRAMES_PER_READ = 64
BODY_SIZE_BYTES = 1024
LOOKUP = new_request(105, {"topic": "bench-topic-00042"})
READ_OF_LOOKUPS = encode_frame(LOOKUP) * FRAMES_PER_READ
READ_OF_BODIES = encode_frame(new_request(10, {}, bytes(BODY_SIZE_BYTES))) * FRAMES_PER_READ
TORN_AT = len(READ_OF_LOOKUPS) // 2 - 10
ROUTE_BODY = bytes(500)


def decode(*reads: bytes) -> int:
    decoder = FrameDecoder()
    count = 0
    for read in reads:
        decoder.feed(read)
        while decoder.next() is not None:
            count += 1
    return count


def decode_lookups() -> None:
    assert decode(READ_OF_LOOKUPS) == FRAMES_PER_READ


def decode_bodies() -> None:
    assert decode(READ_OF_BODIES) == FRAMES_PER_READ


def decode_torn() -> None:
    assert decode(READ_OF_LOOKUPS[:TORN_AT], READ_OF_LOOKUPS[TORN_AT:]) == FRAMES_PER_READ


def encode_answer() -> Command:
    response = answer(LOOKUP, body=ROUTE_BODY)
    encode_frame(response)
    return response


def encode_success() -> bytes:
    return success_frame(LOOKUP, ROUTE_BODY)


def main() -> None:
    assert encode_success() == encode_frame(encode_answer())
    runner = pyperf.Runner()
    per_read = {"inner_loops": FRAMES_PER_READ}
    runner.bench_func("frame.decode look-up, 64 per read", decode_lookups, **per_read)
    runner.bench_func("frame.decode 1 KiB body, 64 per read", decode_bodies, **per_read)
    runner.bench_func("frame.decode look-up, read torn", decode_torn, **per_read)
    runner.bench_func("frame.encode answer of 500 B", encode_answer)
    runner.bench_func("frame.encode success of 500 B", encode_success)


if __name__ == "__main__":
    main()
