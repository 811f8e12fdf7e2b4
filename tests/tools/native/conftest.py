from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CUDA_LLM_CACHE", str(cache))
    return cache
