"""Where a user's data is kept."""

from pathlib import Path

from emberq.cli.data_folder import user_data_folder


def test_the_data_folder_follows_the_desktop_rules(tmp_path: Path) -> None:
    chosen = user_data_folder({"XDG_DATA_HOME": str(tmp_path), "HOME": "/h"})
    default = user_data_folder({"HOME": "/h"})
    relative = user_data_folder({"XDG_DATA_HOME": "data", "HOME": "/h"})

    assert chosen == tmp_path / "emberq"
    assert default == relative == Path("/h/.local/share/emberq")
