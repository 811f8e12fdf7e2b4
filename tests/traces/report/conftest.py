"""The large run is written once: it is 5,000 files."""

import pytest
from report_runs import write_large_run

from cuda_llm.traces.run_folder import RunFolder


@pytest.fixture(scope="session")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of 500 candidates."""
    return write_large_run(tmp_path_factory.mktemp("large") / "large-run")
