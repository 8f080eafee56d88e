"""An object store as a process of its own, and what its clients have to know."""

import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUCKET = "lake"
START_DEADLINE_S = 60
_ADDRESS = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


@contextmanager
def running_store(folder: Path) -> Iterator[dict[str, str]]:
    """The environment of programs that use it; it has one bucket."""
    said = folder / "object-store.log"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    with said.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        try:
            endpoint = _endpoint(process, said)
            request = urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=START_DEADLINE_S).close()
            yield {
                "AWS_ENDPOINT_URL": endpoint,
                "AWS_ACCESS_KEY_ID": "key",
                "AWS_SECRET_ACCESS_KEY": "secret",
                "AWS_REGION": "us-east-1",
                "AWS_ALLOW_HTTP": "true",
            }
        finally:
            process.kill()


def _endpoint(process: "subprocess.Popen[bytes]", said: Path) -> str:
    deadline = time.monotonic() + START_DEADLINE_S
    while (found := _ADDRESS.search(said.read_text())) is None:
        assert process.poll() is None, said.read_text()
        assert time.monotonic() < deadline, "the object store did not start"
        time.sleep(0.05)
    return found[1]
