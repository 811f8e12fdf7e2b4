import pytest
from lane_library import LaneLibrary, build_library, judged_operations
from lane_values import MISTAKEN


@pytest.fixture(scope="session")
def library(shared_cache: object) -> LaneLibrary:
    """Every operation that is judged, built once."""
    return build_library(judged_operations([one for pair in MISTAKEN for one in pair]))
