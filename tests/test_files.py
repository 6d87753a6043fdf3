"""Files that are written in one step."""

from pathlib import Path

import pytest

from rlgen.files import write_text


@pytest.mark.parametrize("name", ["folder", "/proc/file.txt"])
def test_refusals_name_the_file_that_was_asked_for(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    path = tmp_path / name
    with pytest.raises(OSError) as raised:
        write_text(path, "text")
    assert raised.value.filename == str(path)
    assert "must be a file" in raised.value.strerror or "cannot be written" in raised.value.strerror
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
