"""Fixtures for all tests."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A machine that is busy with other things must not fail a test.
settings.register_profile("rlgen", deadline=None)
settings.load_profile("rlgen")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real market data beside the repository; tests that ask for it skip where it is absent."""
    folder = Path(os.environ.get("RLGEN_SHARED_DATA") or ROOT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"real market data: no folder {folder} (RLGEN_SHARED_DATA says where it is)")
    return folder
