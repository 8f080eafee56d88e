"""From records as they lie in the log to Arrow batches: a reference, and its fast equal."""
