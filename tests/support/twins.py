"""Both twins of the kernel, side by side, whichever of them the process runs with."""

from types import SimpleNamespace
from typing import Any

import pytest

from emberq.kernel import (
    batch,
    bytes_in_making,
    collect,
    index_entries,
    key_collector,
    key_hashes,
    message_ids,
    queue_entries,
    record_keys,
    run_check,
    scan,
)
from emberq.record import encode

try:
    from emberq.kernel import compiled as _compiled
except ImportError:
    _compiled = None  # type: ignore[assignment]

PURE: Any = SimpleNamespace(
    BytesInMaking=bytes_in_making.BytesInMaking,
    KeyCollector=key_collector.KeyCollector,
    are_records_of=run_check.are_records_of,
    chain_entries=index_entries.chain_entries,
    choose_entries=queue_entries.choose_entries,
    choose_ranges=queue_entries.choose_ranges,
    collect_records=collect.collect_records,
    count_records_of=run_check.count_records_of,
    encode_common_record=encode.encode_common_record,
    explode_batch=batch.explode_batch,
    hash_into=key_hashes.hash_into,
    hash_record_keys=record_keys.hash_record_keys,
    index_hashes=key_hashes.index_hashes,
    indexed_properties=scan.indexed_properties,
    joined_ids=message_ids.joined_ids,
    scan_records=scan.scan_records,
)
COMPILED: Any = _compiled

needs_compiled = pytest.mark.skipif(_compiled is None, reason="the kernel is not compiled here")
both_twins = pytest.mark.parametrize(
    "twin",
    [
        pytest.param(PURE, id="pure"),
        pytest.param(COMPILED, id="compiled", marks=needs_compiled),
    ],
)
