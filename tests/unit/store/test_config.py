"""Settings that no store can run with."""

import pytest

from emberq.errors import ConfigError
from emberq.store.config import StoreConfig


def test_a_log_in_several_folders_is_refused() -> None:
    with pytest.raises(ConfigError, match="one folder"):
        StoreConfig(store_path_commit_log="/a,/b")
