"""The inner loops of the store, each in two twins that do the same: plain Python, and compiled.

The compiled twin is optional: it is made where `pip install` finds a C compiler. `TWIN` says
which one runs; EMBERQ_PURE=1 in the environment chooses plain Python.
"""

import logging
import os

from emberq.kernel.key_hashes import tag_index_hash

log = logging.getLogger(__name__)

__all__ = [
    "TWIN",
    "BytesInMaking",
    "KeyCollector",
    "are_records_of",
    "chain_entries",
    "choose_entries",
    "choose_ranges",
    "collect_records",
    "count_records_of",
    "encode_common_record",
    "explode_batch",
    "hash_into",
    "hash_record_keys",
    "index_hashes",
    "indexed_properties",
    "joined_ids",
    "scan_records",
    "tag_index_hash",
]

COMPILED, PURE = "compiled", "pure"

# Raised with every change of a signature: a twin that was compiled before it is not used.
INTERFACE = 8


def _chosen() -> str:
    if os.environ.get("EMBERQ_PURE", "") not in ("", "0"):
        return PURE
    try:
        from emberq.kernel import compiled  # noqa: PLC0415 - there is none without a compiler
    except ImportError:
        return PURE
    if getattr(compiled, "INTERFACE", 0) != INTERFACE:
        log.warning("kernel_outdated path=%s: install emberq again", compiled.__file__)
        return PURE
    return COMPILED


TWIN = _chosen()

if TWIN == PURE:
    from emberq.kernel.batch import explode_batch
    from emberq.kernel.bytes_in_making import BytesInMaking
    from emberq.kernel.collect import collect_records
    from emberq.kernel.index_entries import chain_entries
    from emberq.kernel.key_collector import KeyCollector
    from emberq.kernel.key_hashes import hash_into, index_hashes
    from emberq.kernel.message_ids import joined_ids
    from emberq.kernel.queue_entries import choose_entries, choose_ranges
    from emberq.kernel.record_keys import hash_record_keys
    from emberq.kernel.run_check import are_records_of, count_records_of
    from emberq.kernel.scan import indexed_properties, scan_records
    from emberq.record.encode import encode_common_record
else:
    from emberq.kernel.compiled import (
        BytesInMaking,
        KeyCollector,
        are_records_of,
        chain_entries,
        choose_entries,
        choose_ranges,
        collect_records,
        count_records_of,
        encode_common_record,
        explode_batch,
        hash_into,
        hash_record_keys,
        index_hashes,
        indexed_properties,
        joined_ids,
        scan_records,
    )
