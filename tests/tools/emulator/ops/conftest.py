import pytest
from lane_library import LaneLibrary, build_library

from cuda_llm.tools.emulator.ops.table import operations


@pytest.fixture(scope="session")
def library(shared_cache: object) -> LaneLibrary:
    """Every operation of the table, built once."""
    return build_library(operations())
