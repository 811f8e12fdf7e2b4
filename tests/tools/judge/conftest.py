from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Baselines are timed anew in every test."""
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path))
