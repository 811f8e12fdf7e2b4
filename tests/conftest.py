"""What every test finds around it: one cache for all, cores to itself, a Ctrl-C that is heard."""

import os
import signal
from pathlib import Path

import pytest
from corpus_sample import examples, is_whole
from hypothesis import HealthCheck, settings
from shards import SHARDS, mark_slow, of_other_shards, shard_of_run


def pytest_configure() -> None:
    """Let the threads of NumPy's BLAS sleep between products: other workers wait for their cores.

    Read when NumPy is loaded, hence before any test is. Properties are asked of the same examples
    in each run of samples, of others in each whole run; how long one takes says how busy the
    machine is.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    slow = [HealthCheck.too_slow]
    patient = settings(max_examples=examples(100), deadline=None, suppress_health_check=slow)
    settings.register_profile("suite", patient, derandomize=not is_whole(), database=None)
    settings.load_profile("suite")


def pytest_report_header() -> str:
    """Say at the top of the output which of the slow tests are left out."""
    shard = shard_of_run()
    return "slow tests: all" if shard is None else f"slow tests: shard {shard} of 0..{SHARDS - 1}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out slow tests of other shards, and run what judges whole corpora first, then clusters.

    At the end two workers would share a corpus, and each would make all its fixtures. Two clusters
    at once want the same ports, and the time that the nodes of either wait for; by then the native
    parts are built, which they wait for, too.
    """
    mark_slow(items)
    left_out = of_other_shards(items)
    config.hook.pytest_deselected(items=list(left_out))
    first = {"integration": 0, "cluster": 1}
    kept = [item for item in items if item not in left_out]
    items[:] = sorted(kept, key=lambda item: min(first.get(part, 2) for part in item.path.parts))


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Point `CUDA_LLM_CACHE` at a folder that every worker of this run shares.

    A cache named by the caller is kept: a developer may want builds to survive between runs.
    """
    named = os.environ.get("CUDA_LLM_CACHE")
    if named:
        return Path(named)
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    cache = (base.parent if is_worker else base) / "cuda-llm-cache"
    cache.mkdir(exist_ok=True)
    os.environ["CUDA_LLM_CACHE"] = str(cache)
    return cache


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """What a shell starts in the background ignores it, and so would the commands under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
