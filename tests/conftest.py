"""Shared fixtures."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_root() -> Path:
    """The folder that STRESSRAG_DATA names; without it the test is skipped, on CI it fails."""
    value = os.environ.get("STRESSRAG_DATA", "")
    if value and (Path(value) / "beir").is_dir():
        return Path(value)
    message = "needs the real collections: set STRESSRAG_DATA to a folder holding beir/scifact and the like"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)
