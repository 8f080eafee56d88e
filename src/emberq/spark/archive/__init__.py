"""Messages into Parquet files inside the task that reads them, without a way through the JVM."""
