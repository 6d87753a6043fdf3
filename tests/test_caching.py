import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from rlgen import caching
from tests.conftest import ROOT


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package folder that cannot be written, a home and a folder for temporary files."""
    monkeypatch.delenv(caching.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    locked = {Path(caching.__file__).parent}
    can_write = caching.can_write
    monkeypatch.setattr(caching, "can_write", lambda folder: folder not in locked and can_write(folder))
    # No numba in sight: the choice must not touch the configuration of the tests' own.
    monkeypatch.setitem(sys.modules, "numba", None)
    return tmp_path


def test_a_writable_package_is_left_to_numba(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "can_write", lambda folder: True)
    assert caching.choose_cache() is None
    assert caching.VARIABLE not in os.environ


def test_the_users_own_choice_stands(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(caching.VARIABLE, "mine")
    assert caching.choose_cache() is None
    assert os.environ[caching.VARIABLE] == "mine"


def test_a_folder_in_the_users_cache(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = caching.choose_cache()
    monkeypatch.setenv(caching.VARIABLE, os.environ[caching.VARIABLE])  # So that it is undone.
    assert folder == machine / "home" / "rlgen" / f"numba-{caching.processor()}"
    assert os.environ[caching.VARIABLE] == str(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_temporary_folder_where_the_home_is_closed(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine / "home").write_text("no folder")
    folder = caching.choose_cache()
    monkeypatch.setenv(caching.VARIABLE, os.environ[caching.VARIABLE])
    assert folder is not None and folder.parent.parent == machine / "temporary"


def test_a_folder_that_another_user_could_fill_is_not_taken(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine / "home").write_text("no folder")
    (machine / "elsewhere").mkdir()
    (machine / "temporary" / f"rlgen-{os.getuid()}").symlink_to(machine / "elsewhere")
    assert caching.choose_cache() is None
    assert caching.VARIABLE not in os.environ


def test_a_numba_that_is_there_already_is_told(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Numba:
        class config:
            CACHE_DIR = ""

    monkeypatch.setitem(sys.modules, "numba", Numba)  # type: ignore[arg-type]
    folder = caching.choose_cache()
    monkeypatch.setenv(caching.VARIABLE, os.environ[caching.VARIABLE])
    assert str(folder) == Numba.config.CACHE_DIR


def test_the_processor_has_a_name_for_a_folder() -> None:
    assert caching.processor() == caching.processor()
    assert caching.processor().replace("-", "").replace("_", "").isalnum()


def test_importing_rlgen_is_quick_and_brings_no_libraries() -> None:
    code = (
        "import sys, rlgen; heavy = {'torch', 'numba', 'numpy', 'pandas', 'pyarrow'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "assert rlgen.__version__;"
        "assert set(rlgen.__all__) <= set(dir(rlgen));"
        "rlgen.parse('Mean($close,5)');"
        "assert 'torch' not in sys.modules and 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=60)
