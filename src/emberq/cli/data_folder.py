"""Where programs keep a user's data, by the rules of each system."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path


def user_data_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """EmberQ's folder among the user's data; it need not exist yet."""
    if sys.platform == "win32" and environment.get("LOCALAPPDATA"):
        return Path(environment["LOCALAPPDATA"]) / "emberq"
    base = environment.get("XDG_DATA_HOME", "")
    # A relative path means nothing there: the specification says to ignore it.
    if Path(base).is_absolute():
        return Path(base) / "emberq"
    return Path(environment.get("HOME") or Path.home()) / ".local" / "share" / "emberq"
