"""Headers: both encodings, and the mapper between text fields and typed headers."""

import pyperf  # type: ignore[import-untyped] # it has no annotations

from emberq.protocol.command import Command, new_request
from emberq.protocol.header_binary import decode_binary_header, encode_binary_header
from emberq.protocol.header_fields import from_fields, to_fields
from emberq.protocol.header_json import decode_json_header, encode_json_header
from emberq.protocol.headers.nameserver import RegisterBroker

LOOKUP = new_request(105, {"topic": "bench-topic-00042"})
REGISTER_FIELDS = {
    "bodyCrc32": "1234567890",
    "brokerAddr": "10.0.0.10:10911",
    "brokerId": "0",
    "brokerName": "bench-broker-00",
    "clusterName": "bench-cluster",
    "compressed": "false",
    "haServerAddr": "10.0.0.10:10912",
}
REGISTER = new_request(103, REGISTER_FIELDS)
LOOKUP_JSON, LOOKUP_BINARY = encode_json_header(LOOKUP), encode_binary_header(LOOKUP)
REGISTER_JSON, REGISTER_BINARY = encode_json_header(REGISTER), encode_binary_header(REGISTER)
REGISTER_HEADER = from_fields(RegisterBroker, REGISTER_FIELDS)


def check() -> None:
    for command in (
        decode_json_header(REGISTER_JSON),
        decode_binary_header(REGISTER_BINARY),
    ):
        assert isinstance(command, Command)
        assert command.fields == REGISTER_FIELDS
    assert REGISTER_FIELDS.items() <= to_fields(REGISTER_HEADER).items()


def main() -> None:
    check()
    runner = pyperf.Runner()
    runner.bench_func("header.json decode, 1 field", decode_json_header, LOOKUP_JSON)
    runner.bench_func("header.json decode, 7 fields", decode_json_header, REGISTER_JSON)
    runner.bench_func("header.json encode, 7 fields", encode_json_header, REGISTER)
    runner.bench_func("header.binary decode, 1 field", decode_binary_header, LOOKUP_BINARY)
    runner.bench_func("header.binary decode, 7 fields", decode_binary_header, REGISTER_BINARY)
    runner.bench_func("header.binary encode, 7 fields", encode_binary_header, REGISTER)
    runner.bench_func("header.typed read, 7 fields", from_fields, RegisterBroker, REGISTER_FIELDS)
    runner.bench_func("header.typed write, 7 fields", to_fields, REGISTER_HEADER)


if __name__ == "__main__":
    main()
