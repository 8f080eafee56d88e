"""Topics through Spark beside Parquet files of the same rows, in the same session."""
