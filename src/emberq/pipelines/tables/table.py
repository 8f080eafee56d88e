"""What every table format offers to the jobs: each batch once, files exchanged at once."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from emberq.spark.archive.data_file import DataFile


class Table(Protocol):
    """Parquet files under one folder, and a log that says which of them count.

    A batch is named by its writer (one per query) and its number. A number that the writer has
    reached already is not appended again, so a batch that is repeated after a crash changes
    nothing.
    """

    @property
    def root(self) -> str:
        """Where the files are: a folder or an address such as `s3://bucket/lake`."""

    @property
    def keeps_partition_columns(self) -> bool:
        """Whether files hold the columns that also stand in their path."""

    @property
    def takes_columns(self) -> bool:
        """Whether files may bring columns that the table did not have."""

    def schema(self) -> pa.Schema | None:
        """What its rows are, with the columns that only paths hold; None: there is no table yet."""

    def check(self) -> None:
        """Before anything is written: does it fit what is there?

        Raises:
            ConfigError: it does not.
        """

    def last_batch(self, writer: str) -> int | None:
        """The highest batch of this writer that is in the table."""

    def append(self, writer: str, batch: int, files: Sequence[DataFile]) -> bool:
        """Add the files of a batch; False if the batch was there."""

    def replace(self, removed: Sequence[str], added: Sequence[DataFile]) -> None:
        """Exchange files in one step; readers see either the old ones or the new ones."""

    def files(self) -> list[DataFile]:
        """The files that count now. What a format does not remember of a file is left empty."""
