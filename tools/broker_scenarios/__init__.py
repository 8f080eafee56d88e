"""What `capture_broker` asks an official broker: one file per area, one function per scenario."""
