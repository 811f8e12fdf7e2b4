from collections.abc import Iterator
from pathlib import Path

import pytest
from refereed import PLAIN

from cuda_llm.tools.cuda.client import HostClient, HostTimeouts

SUPPORT = Path(__file__).parents[2] / "support"


@pytest.fixture(autouse=True)
def found_by_children(monkeypatch: pytest.MonkeyPatch) -> None:
    """The referee imports sites and works of tests/support by name."""
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


@pytest.fixture
def client() -> Iterator[HostClient]:
    made = HostClient(PLAIN, HostTimeouts(silence_s=20, whole_s=60))
    yield made
    made.close()
