"""Tables that archives are written to: Parquet with a log of EmberQ's own, Delta and Iceberg."""

from emberq.pipelines.tables.opening import FORMATS, live_files, open_table
from emberq.pipelines.tables.table import Table
from emberq.spark.archive.data_file import DataFile

__all__ = ["FORMATS", "DataFile", "Table", "live_files", "open_table"]
