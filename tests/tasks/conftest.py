"""A task folder to break in one place at a time."""

from pathlib import Path

import pytest

from cuda_llm.tasks.new_task import skeleton, write_task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The skeleton that `tasks new` writes."""
    return write_task("mine", tmp_path, skeleton("mine"))
