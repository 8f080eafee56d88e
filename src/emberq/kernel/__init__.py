"""The inner loops of the store, each in two twins that do the same: plain Python, and compiled.

The compiled twin is optional: it is made where `pip install` finds a C compiler. `TWIN` says
which one runs; EMBERQ_PURE=1 in the environment chooses plain Python.
"""

from emberq.kernel.batch import explode_batch
from emberq.kernel.index_entries import chain_entries
from emberq.kernel.key_hashes import hash_into, index_hashes, tag_index_hash
from emberq.kernel.queue_entries import choose_entries
from emberq.record.encode import encode_common_record

TWIN = "pure"

__all__ = [
    "TWIN",
    "chain_entries",
    "choose_entries",
    "encode_common_record",
    "explode_batch",
    "hash_into",
    "index_hashes",
    "tag_index_hash",
]
