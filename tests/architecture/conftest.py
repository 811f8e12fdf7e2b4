"""What holds for every file is checked for each submission, however long it takes."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of this folder alone: pytest asks the conftest files above an item."""
    item.add_marker("always")
