from pathlib import Path

import pytest


@pytest.fixture
def own_cache(tmp_path: Path, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test alone, so that kernels are compiled and baselines timed anew.

    Our own native parts lie in it: they take a minute to build.
    """
    cache = tmp_path / "cache"
    cache.mkdir()
    for kind in ("native", "locks"):
        (cache / kind).symlink_to(shared_cache / kind)
    monkeypatch.setenv("CUDA_LLM_CACHE", str(cache))
    return cache
