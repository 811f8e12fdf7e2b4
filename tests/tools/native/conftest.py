from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for each test."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("CUDA_LLM_CACHE", str(cache))
    return cache


@pytest.fixture
def slow_program() -> str:
    """C++ that g++ works on for minutes."""
    return """
template <int depth, int id> struct Node { static constexpr long value =
    Node<depth - 1, 2 * id>::value + Node<depth - 1, 2 * id + 1>::value; };
template <int id> struct Node<0, id> { static constexpr long value = id; };
int main() { return Node<20, 1>::value != 0; }
"""
