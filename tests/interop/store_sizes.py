"""The topic of the store tests, and files so small that a few hundred messages fill several."""

from pathlib import Path

from emberq.store.config import StoreConfig

TOPIC = "Travelling"
QUEUE_COUNT = 4  # what official brokers give a topic that a producer makes

SEGMENT_SIZE_BYTES = 1024 * 1024
QUEUE_FILE_SIZE_BYTES = 30 * 20
INDEX_SLOTS = 100
INDEX_ENTRIES_MAX = 500

# What official brokers are told; EmberQ is told the same by `store_config`.
BROKER_CONFIG = {
    "mappedFileSizeCommitLog": str(SEGMENT_SIZE_BYTES),
    "mappedFileSizeConsumeQueue": str(QUEUE_FILE_SIZE_BYTES),
    "maxHashSlotNum": str(INDEX_SLOTS),
    "maxIndexNum": str(INDEX_ENTRIES_MAX),
}


def store_config(root: Path) -> StoreConfig:
    return StoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=SEGMENT_SIZE_BYTES,
        mapped_file_size_consume_queue=QUEUE_FILE_SIZE_BYTES,
        max_hash_slot_num=INDEX_SLOTS,
        max_index_num=INDEX_ENTRIES_MAX,
    )
