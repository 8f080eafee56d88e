"""The compiled twin has the signatures of the plain one."""

from emberq.kernel.batch import explode_batch as explode_batch
from emberq.kernel.bytes_in_making import BytesInMaking as BytesInMaking
from emberq.kernel.collect import collect_records as collect_records
from emberq.kernel.index_entries import chain_entries as chain_entries
from emberq.kernel.key_collector import KeyCollector as KeyCollector
from emberq.kernel.key_hashes import hash_into as hash_into
from emberq.kernel.key_hashes import index_hashes as index_hashes
from emberq.kernel.message_ids import joined_ids as joined_ids
from emberq.kernel.queue_entries import choose_entries as choose_entries
from emberq.kernel.queue_entries import choose_ranges as choose_ranges
from emberq.kernel.record_keys import hash_record_keys as hash_record_keys
from emberq.kernel.run_check import are_records_of as are_records_of
from emberq.kernel.run_check import count_records_of as count_records_of
from emberq.kernel.scan import indexed_properties as indexed_properties
from emberq.kernel.scan import scan_records as scan_records
from emberq.record.encode import encode_common_record as encode_common_record

INTERFACE: int
