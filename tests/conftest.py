"""What tests of every floor share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def data_dir() -> Path:
    """The folder of real data sets, which the project does not carry."""
    folder = os.environ.get("PALATE_DATA")
    if not folder:
        pytest.skip("set PALATE_DATA to the folder of real data sets to run this test")
    return Path(folder)
