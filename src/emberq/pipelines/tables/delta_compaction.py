"""Compaction of a Delta table: deltalake joins files, leftovers are deleted as elsewhere."""

from collections.abc import Callable, Mapping

from emberq.pipelines.tables.compaction import CompactionPlan, CompactionTerms, groups_to_join
from emberq.pipelines.tables.delta import DeltaLakeTable


class DeltaCompaction:
    def __init__(self, table: DeltaLakeTable, terms: CompactionTerms) -> None:
        self._table = table
        self._terms = terms

    def plan(self) -> CompactionPlan:
        """About which files are joined: deltalake does not say before it does."""
        files = self._table.files()
        wanted = self._terms.file_size_bytes
        return CompactionPlan(
            files=files,
            groups=groups_to_join(files, wanted, wanted),
            deleted=self._table.leftovers(self._terms.orphans_after_s),
        )

    def run(self, say: Callable[[str], None]) -> Mapping[str, int]:
        before = {each.path for each in self._table.files()}
        say("joining files")
        self._table.compact(self._terms.file_size_bytes, self._terms.compression)
        deleted = self._table.delete_leftovers(self._terms.orphans_after_s)
        after = {each.path for each in self._table.files()}
        return {
            "files before": len(before),
            "files after": len(after),
            "files joined": len(before - after),
            "files deleted": len(deleted),
        }
