"""Compaction of a Delta table: deltalake joins files, leftovers are deleted as elsewhere."""

from collections.abc import Callable, Mapping

from emberq.pipelines.tables.compaction import (
    CompactionPlan,
    CompactionTerms,
    groups_to_join,
    older_files,
)
from emberq.pipelines.tables.delta import DeltaLakeTable


class DeltaCompaction:
    def __init__(self, table: DeltaLakeTable, terms: CompactionTerms) -> None:
        self._table = table
        self._terms = terms

    def plan(self) -> CompactionPlan:
        """About which files are joined: deltalake does not say before it does."""
        files = self._table.files()
        dropped = older_files(files, self._terms.oldest_day)
        paths = {each.path for each in dropped}
        kept = [each for each in files if each.path not in paths]
        wanted = self._terms.file_size_bytes
        return CompactionPlan(
            files=files,
            dropped=dropped,
            groups=groups_to_join(kept, wanted, wanted),
            deleted=self._table.leftovers(self._terms.orphans_after_s),
        )

    def run(self, say: Callable[[str], None]) -> Mapping[str, int]:
        files = self._table.files()
        dropped = older_files(files, self._terms.oldest_day)
        if dropped and self._terms.oldest_day is not None:
            self._table.drop_before(self._terms.oldest_day)
            say(f"{len(dropped)} files of old days dropped")
        kept = {each.path for each in self._table.files()}
        say("joining files")
        self._table.compact(self._terms.file_size_bytes, self._terms.compression)
        deleted = self._table.delete_leftovers(self._terms.orphans_after_s)
        after = {each.path for each in self._table.files()}
        return {
            "files before": len(files),
            "files after": len(after),
            "files joined": len(kept - after),
            "files of dropped days": len(dropped),
            "files deleted": len(deleted),
        }
