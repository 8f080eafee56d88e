"""The JSON of bodies and configuration files, read and written: docs/formats/json-dialect.md."""

from emberq.protocol.fastjson_reader import read_json
from emberq.protocol.fastjson_writer import Dialect, write_json, write_pretty_json

__all__ = ["Dialect", "read_json", "write_json", "write_pretty_json"]
