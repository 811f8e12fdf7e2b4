from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of the test alone, so that baselines are timed anew."""
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
