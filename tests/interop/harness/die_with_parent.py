"""Become the given command, but be killed by the system when the starting process dies.

Runs between fork and exec of a child: `python die_with_parent.py COMMAND …`. A test run that is
killed itself cannot clean up, so the kernel does it (Linux; elsewhere this only execs).
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    os.execvp(sys.argv[1], sys.argv[1:])
