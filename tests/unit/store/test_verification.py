"""What a check of a whole store finds, and what it rightly accepts."""

import shutil
import struct
from pathlib import Path

import pytest

from emberq.record.encode import encode_record
from emberq.record.property_crc import fill_property_crc, reserve_property_crc
from emberq.store.checks.findings import Finding, FindingKind
from emberq.store.verification import Verification, Verifier
from emberq.store.view.directory import StoreView
from tests.support.store_builder import INDEX_NAME, StoreBuilder, overwrite

SEGMENT = 4096


@pytest.fixture
def builder(tmp_path: Path) -> StoreBuilder:
    return filled(StoreBuilder(tmp_path / "store", segment_size=SEGMENT))


def filled(builder: StoreBuilder) -> StoreBuilder:
    for number in range(80):
        builder.add(
            ("orders", "bills")[number % 2],
            number % 4 // 2,
            b"body %d" % number * 5,
            UNIQ_KEY=f"U{number:04d}",
            KEYS=f"k{number} all",
            TAGS=f"t{number % 3}",
        )
    return builder


def verify(
    root: Path, known_topics: frozenset[str] | None = None, kept_max: int = 100
) -> Verification:
    view = StoreView(root)
    try:
        return Verifier(view, known_topics=known_topics, findings_kept_max=kept_max).run()
    finally:
        view.close()


def only_finding(root: Path) -> Finding:
    outcome = verify(root)
    assert len(outcome.findings) == 1, outcome
    return outcome.findings[0]


def log_file(root: Path, start: int = 0) -> Path:
    return root / "commitlog" / f"{start:020d}"


def damage_log(root: Path, log_offset: int, content: bytes) -> None:
    position = log_offset % SEGMENT
    overwrite(log_file(root, log_offset - position), position, content)


def queue_file(root: Path, topic: str = "orders", queue_id: int = 0) -> Path:
    return root / "consumequeue" / topic / str(queue_id) / f"{0:020d}"


def index_file(root: Path) -> Path:
    return root / "index" / INDEX_NAME


def test_a_sound_store_has_no_findings(builder: StoreBuilder) -> None:
    outcome = verify(builder.write())

    assert outcome.findings == []
    assert outcome.notes == []
    assert (outcome.records, outcome.queue_entries, outcome.index_entries) == (80, 80, 240)
    assert outcome.queues == 4
    assert outcome.state == "stopped"


def test_a_store_whose_first_segments_are_deleted_is_sound(tmp_path: Path) -> None:
    root = filled(StoreBuilder(tmp_path, segment_size=SEGMENT)).write()
    log_file(root, 0).unlink()
    log_file(root, SEGMENT).unlink()

    assert verify(root).findings == []


def test_a_wrong_body_is_found_with_its_message(builder: StoreBuilder) -> None:
    root = builder.write()
    broken = builder.placed[7]
    damage_log(root, broken.log_offset + 90, b"\xff")

    finding = only_finding(root)

    assert finding.kind is FindingKind.BODY_CHECKSUM
    assert (finding.topic, finding.queue_id, finding.queue_offset) == (
        broken.topic,
        broken.queue_id,
        broken.queue_offset,
    )


def test_messages_in_damaged_parts_of_the_log_are_named_as_lost(builder: StoreBuilder) -> None:
    root = builder.write()
    first, last = builder.placed[4], builder.placed[12]
    damage_log(root, first.log_offset, b"\xee" * (last.log_offset - first.log_offset))

    outcome = verify(root)

    assert outcome.finding_counts == {"message-lost": 8, "log-damaged": 1}
    lost = [finding for finding in outcome.findings if finding.kind is FindingKind.MESSAGE_LOST]
    assert {(f.topic, f.queue_id, f.queue_offset, f.count) for f in lost} == {
        (topic, queue_id, 1, 2) for topic in ("orders", "bills") for queue_id in (0, 1)
    }
    assert outcome.records == 72


def test_a_record_without_a_queue_entry_is_found(builder: StoreBuilder) -> None:
    builder.add("orders", 1, b"unqueued", is_queued=False)

    finding = only_finding(builder.write())

    assert finding.kind is FindingKind.ENTRY_OF_ANOTHER_RECORD


@pytest.mark.parametrize(
    ("position", "content", "kind"),
    [
        (8, b"\x00\x00\x00\x50", FindingKind.ENTRY_SIZE),
        (12, b"\x00\x00\x00\x00\x00\x00\x00\x07", FindingKind.ENTRY_TAG_CODE),
        (0, struct.pack(">q", 128), FindingKind.ENTRY_OF_ANOTHER_RECORD),
        (0, bytes(20), FindingKind.RECORD_NOT_IN_QUEUE),
    ],
)
def test_a_wrong_queue_entry_is_found(
    builder: StoreBuilder, position: int, content: bytes, kind: FindingKind
) -> None:
    root = builder.write()
    overwrite(queue_file(root), 5 * 20 + position, content)

    finding = only_finding(root)

    assert finding.kind is kind
    assert (finding.topic, finding.queue_id, finding.queue_offset) == ("orders", 0, 5)


def test_an_entry_that_no_record_has_is_found(builder: StoreBuilder) -> None:
    root = builder.write()
    overwrite(queue_file(root), 20 * 20, struct.pack(">qiq", 0, 100, 0))

    finding = only_finding(root)

    assert finding.kind is FindingKind.ENTRY_WITHOUT_RECORD
    assert finding.queue_offset == 20


def test_a_lost_queue_is_found_unless_its_topic_is_deleted(builder: StoreBuilder) -> None:
    root = builder.write()
    shutil.rmtree(root / "consumequeue" / "bills")

    assert verify(root).finding_counts == {"record-not-in-queue": 40}
    assert verify(root, frozenset({"orders", "bills"})).finding_count == 40
    deleted = verify(root, frozenset({"orders"}))
    assert deleted.finding_count == 0
    assert deleted.notes == ["records of deleted topics: 40"]


def test_records_from_before_a_topic_was_made_again_are_only_noted(builder: StoreBuilder) -> None:
    root = builder.write()
    newest = builder.placed[-2]
    assert (newest.topic, newest.queue_id) == ("orders", 1)
    # The topic is deleted and made again: queue offsets begin at 0, old records stay in the log.
    entry = queue_file(root, "orders", 1).read_bytes()[newest.queue_offset * 20 :][:20]
    shutil.rmtree(root / "consumequeue" / "orders")
    damage_log(root, newest.log_offset + 20, struct.pack(">q", 0))
    queue_file(root, "orders", 1).parent.mkdir(parents=True)
    queue_file(root, "orders", 1).write_bytes(entry.ljust(2000, b"\0"))

    outcome = verify(root)

    assert outcome.findings == []
    assert outcome.notes == ["records older than the queue that has their topic's name now: 39"]


def test_half_messages_and_rollbacks_need_no_queue_entry(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add(KEYS="a")
    builder.add(system_flag=0x4, is_queued=False, KEYS="half")
    builder.add(system_flag=0xC, is_queued=False, is_indexed=False, KEYS="half")
    builder.add(system_flag=0x8, KEYS="half")

    assert verify(builder.write()).findings == []


def test_delivery_times_and_extended_addresses_are_no_wrong_tag_codes(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add("SCHEDULE_TOPIC_XXXX", 2, TAGS="a", DELAY="3")
    builder.add("orders", 0, TAGS="a")
    root = builder.write()
    delivery = struct.pack(">q", 1_700_000_010_000)
    overwrite(queue_file(root, "SCHEDULE_TOPIC_XXXX", 2), 12, delivery)
    overwrite(queue_file(root), 12, struct.pack(">q", -(2**63) + 40))

    assert verify(root).findings == []


def test_light_queues_are_checked_with_the_record_that_names_them(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add(
        "orders",
        3,
        INNER_MULTI_DISPATCH="%LMQ%a,%LMQ%b",
        INNER_MULTI_QUEUE_OFFSET="0,0",
    )
    root = builder.write()
    entry = queue_file(root, "orders", 3).read_bytes()
    for name in ("%LMQ%a", "%LMQ%b"):
        path = queue_file(root, name, 0)
        path.parent.mkdir(parents=True)
        path.write_bytes(entry)

    outcome = verify(root)

    assert outcome.findings == []
    assert outcome.queue_entries == 3


def test_what_a_killed_broker_left_undone_is_noted_not_found(builder: StoreBuilder) -> None:
    root = builder.write(is_clean=False)
    last = builder.placed[-1]
    # The last entries never reached queue and index, and the last record is torn.
    overwrite(queue_file(root, "orders", 1), 19 * 20, bytes(20))
    damage_log(root, last.log_offset + 30, bytes(last.size - 30))

    outcome = verify(root)

    assert outcome.finding_count == 0
    assert outcome.state == "killed"
    assert any("recovery cuts it off" in note for note in outcome.notes)
    assert "records that are not in their queues yet: 1" in outcome.notes


def test_the_same_after_a_clean_stop_is_found(builder: StoreBuilder) -> None:
    root = builder.write()
    last = builder.placed[-1]
    damage_log(root, last.log_offset + 30, bytes(last.size - 30))

    assert set(verify(root).finding_counts) == {"log-tail", "message-lost"}


def test_a_key_that_the_index_lacks_is_found(builder: StoreBuilder) -> None:
    builder.add("orders", 0, KEYS="missing", is_indexed=False)
    builder.add("orders", 0, KEYS="there")

    finding = only_finding(builder.write())

    assert finding.kind is FindingKind.KEY_NOT_IN_INDEX
    assert finding.log_offset == builder.placed[-2].log_offset


@pytest.mark.parametrize(
    ("entry_position", "content", "kinds"),
    [
        (0, b"\x00\x00\x00\x07", {"index-chain", "key-not-in-index", "index-entry-without-key"}),
        (4, struct.pack(">q", 10**9), {"index-chain", "key-not-in-index"}),
        (4, struct.pack(">q", 1), {"index-chain", "key-not-in-index"}),
        (16, b"\x00\x00\x00\xff", {"index-chain"}),
    ],
)
def test_a_wrong_index_entry_is_found_alone(
    builder: StoreBuilder, entry_position: int, content: bytes, kinds: set[str]
) -> None:
    root = builder.write()
    overwrite(index_file(root), 40 + 4 * 50 + 20 * 100 + entry_position, content)

    outcome = verify(root)

    assert set(outcome.finding_counts) == kinds
    assert outcome.finding_count <= 6


def test_a_slot_that_leads_nowhere_is_found(builder: StoreBuilder) -> None:
    root = builder.write()
    slots = struct.unpack(">50i", index_file(root).read_bytes()[40:240])
    inner = next(at for at, number in enumerate(slots) if 0 < number < 240)
    overwrite(index_file(root), 40 + 4 * inner, bytes(4))

    finding = only_finding(root)

    assert finding.kind is FindingKind.INDEX_CHAIN
    assert finding.detail == "1 slots of 50 do not lead to their newest entry"


def test_an_index_file_whose_header_makes_no_sense_is_found_and_left_out(
    builder: StoreBuilder,
) -> None:
    root = builder.write()
    overwrite(index_file(root), 36, b"\x00\x00\x00\x33")

    outcome = verify(root)

    assert outcome.finding_counts == {"index-header": 1}
    assert outcome.notes == ["keys are not looked for: part of the index cannot be read"]


def test_tags_in_the_index_are_accepted_and_not_demanded(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add("SM", 0, KEYS="k", TAGS="A")
    builder.add("SM", 0, TAGS="A")
    builder._index.insert(1, (1846512087, 0, builder._last_at_ms))  # SM#T#A, as 5.5.0 hashes it

    assert verify(builder.write()).findings == []


def test_a_store_without_index_is_checked_without_it(tmp_path: Path) -> None:
    builder = StoreBuilder(tmp_path)
    builder.add(KEYS="a", is_indexed=False)

    outcome = verify(builder.write())

    assert outcome.findings == []
    assert outcome.notes == ["there is no index to check"]


def test_the_checksum_in_the_properties_is_checked_too(tmp_path: Path) -> None:
    record = bytearray(encode_record("orders", b"body", reserve_property_crc(b"TAGS\x01a")))
    fill_property_crc(record)
    builder = StoreBuilder(tmp_path)
    builder.add("orders", 0, b"body", TAGS="a")
    root = builder.write()
    overwrite(log_file(root), 0, bytes(record))
    overwrite(queue_file(root), 8, struct.pack(">i", len(record)))

    assert verify(root).findings == []
    overwrite(log_file(root), 16, b"\x01")  # the user's flag, which no other checksum covers
    assert only_finding(root).kind is FindingKind.PROPERTIES_CHECKSUM


def test_only_the_first_findings_are_kept_and_all_are_counted(builder: StoreBuilder) -> None:
    root = builder.write()
    overwrite(queue_file(root), 0, b"".join(struct.pack(">qiq", 1, 100, 0) for _ in range(15)))

    outcome = verify(root, kept_max=3)

    assert len(outcome.findings) == 3
    assert outcome.finding_count >= 15


def test_bytes_at_random_places_never_stop_the_check(builder: StoreBuilder) -> None:
    root = builder.write()
    for path in filter(Path.is_file, sorted(root.rglob("*0*"))):
        for position in range(0, path.stat().st_size, 997):
            overwrite(path, position, b"\xff\x00\xff")

    assert verify(root).finding_count > 0


def test_few_windows_and_files_serve_many_queues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("emberq.store.checks.queues.WINDOWS_MAX", 2)
    monkeypatch.setattr("emberq.store.view.files.OPEN_FILES_MAX", 2)
    builder = StoreBuilder(tmp_path, segment_size=SEGMENT, entries_per_file=3)
    for number in range(100):
        builder.add(f"topic-{number % 7}", number % 3, KEYS=f"k{number}")

    outcome = verify(builder.write())

    assert outcome.findings == []
    assert outcome.queue_entries == 100
