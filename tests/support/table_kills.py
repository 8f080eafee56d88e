"""Jobs that write tables while somebody is killed: every message is in the archive, or in its
window, once."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pyarrow.parquet as pq

from emberq import Message
from emberq.pipelines.archived import existing_table
from tests.support.job_kills import ANY_MOMENT, MESSAGES_PER_BATCH, TOPIC, JobKills

WINDOW_S = 1


class ArchiveKills(JobKills):
    kind: ClassVar = "parquet"
    points: ClassVar = {
        "planned": "_checkpoint/offsets/*",
        "writing": "topic=*/**/*.parquet",
        "in the table": "_emberq_log/*.json",
        "done": "_checkpoint/commits/*",
        ANY_MOMENT: "",
    }

    def check(self) -> str:
        rows = list(self._archived())
        places = Counter((queue, offset) for queue, offset, _ in rows)
        repeated = sorted(place for place, times in places.items() if times > 1)
        assert not repeated, f"archived twice: {repeated[:10]}"
        assert len(places) == self.stored, "messages are missing"
        assert {body for _, _, body in rows} == set(self.sent)
        return f"{len(self.sent)} messages, each once"

    def _options(self) -> dict[str, Any]:
        source = {"maxOffsetsPerTrigger": str(MESSAGES_PER_BATCH)}
        path = str(self._folder)
        return {"job": "archive", "format": self.kind, "path": path, "source": source}

    def _is_there(self) -> bool:
        return sum(1 for _ in self._archived()) >= self.stored

    def _archived(self) -> Iterator[tuple[int, int, str]]:
        names = ["queueId", "queueOffset", "body"]
        for each in existing_table(self.kind, str(self._folder)).files():
            table = pq.read_table(self._folder / each.path, columns=names, partitioning=None)
            for row in table.to_pylist():
                yield row["queueId"], row["queueOffset"], row["body"].decode()


class DeltaArchiveKills(ArchiveKills):
    kind: ClassVar = "delta"
    points: ClassVar = ArchiveKills.points | {"in the table": "_delta_log/*.json"}


class IcebergArchiveKills(ArchiveKills):
    """The catalog names the metadata that counts: they are written just before."""

    kind: ClassVar = "iceberg"
    points: ClassVar = ArchiveKills.points | {"in the table": "metadata/*.metadata.json"}


class StatsKills(JobKills):
    points: ClassVar = {
        "planned": "_checkpoint/offsets/*",
        "writing": "*.parquet",
        "in the table": "_spark_metadata/*",
        "done": "_checkpoint/commits/*",
        ANY_MOMENT: "",
    }

    def check(self) -> str:
        windows = Counter(start for start, _ in self._windows())
        twice = sorted(start for start, times in windows.items() if times > 1)
        assert not twice, f"windows are there twice: {twice[:10]}"
        total = self._counted()
        assert total == self.stored, f"{total} of {self.stored} messages were counted"
        return f"{total} messages in {len(windows)} windows, each counted once"

    def _options(self) -> dict[str, Any]:
        # Without a limit: one queue read further than another would make messages late.
        return {
            "job": "stats",
            "path": str(self._folder),
            "window": f"{WINDOW_S}s",
            "late": "1s",
        }

    def _before_the_end(self) -> None:
        """Windows are complete when later messages are there: these are not counted."""
        time.sleep(2 * WINDOW_S)
        for queue in self._producer.queues_of(TOPIC):
            self._producer.send(Message(TOPIC, b"mark"), queue=queue)

    def _is_there(self) -> bool:
        return self._counted() >= self.stored

    def _counted(self) -> int:
        return sum(count for _, count in self._windows())

    def _windows(self) -> Iterator[tuple[str, int]]:
        """Of the files that Spark's own log of them names."""
        for file in self._named_files():
            table = pq.read_table(file, columns=["windowStart", "messages"])
            for row in table.to_pylist():
                yield str(row["windowStart"]), row["messages"]

    def _named_files(self) -> Iterator[Path]:
        log = self._folder / "_spark_metadata"
        if not log.exists():
            return
        numbers = {path.name: path for path in log.iterdir() if path.suffix != ".crc"}
        compacted = [name for name in numbers if name.endswith(".compact")]
        last = max((int(name.split(".")[0]) for name in compacted), default=-1)
        chosen = [f"{last}.compact"] if last >= 0 else []
        chosen += [name for name in numbers if name.isdigit() and int(name) > last]
        for name in chosen:
            for line in numbers[name].read_text().splitlines()[1:]:
                entry = json.loads(line)
                if entry["action"] == "add":
                    yield Path(entry["path"].removeprefix("file://"))
