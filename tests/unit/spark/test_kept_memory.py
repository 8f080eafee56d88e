"""Pages of one batch serve the next, where the C library can be told to keep them."""

import platform
import subprocess
import sys

import pytest

ROUNDS = 20
BATCHES = """
import resource, sys
from emberq.spark.kept_memory import keep_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

if sys.argv[1] == "kept":
    keep_memory()
parts = [bytearray(3 << 20) for _ in range(8)]
del parts
before = faults()
for _ in range(int(sys.argv[2])):
    parts = [bytearray(3 << 20) for _ in range(8)]
    del parts
print(faults() - before)
"""


def faults(how: str) -> int:
    command = [sys.executable, "-c", BATCHES, how, str(ROUNDS)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_blocks_that_are_made_over_and_over_need_no_new_pages() -> None:
    assert faults("kept") < faults("as ever") / 100


def test_it_may_be_asked_for_anywhere() -> None:
    assert faults("kept") >= 0
