"""Log output of the servers: to stderr, one event per line."""

import logging
import sys

LINE = "%(asctime)s %(levelname)-7s %(name)s %(message)s"


def log_to_stderr(level: str) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(LINE))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
