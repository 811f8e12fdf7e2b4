"""What every test finds around it: kept compilations, cores to itself, a Ctrl-C that is heard."""

import contextlib
import gc
import os
import signal
from pathlib import Path

import pytest
from corpus_sample import EVIDENCE, examples, is_whole
from hypothesis import HealthCheck, settings

KEPT = Path(__file__).parents[1] / "build/test-cache"
KEPT_KINDS = ("compiled", "native", "translated", "locks")
"""Cache entries whose key is a hash of all that decides them: one run of the tests builds them,
later runs find them. With them go the locks by which runs at the same time share them."""


def pytest_configure() -> None:
    """Let the threads of NumPy's BLAS sleep between products: other workers wait for their cores.

    Read when NumPy is loaded, hence before any test is. Properties are asked of the same examples
    in each run of `make test`, of others in each run of `make evidence`; how long one takes says
    how busy the machine is. What is loaded to collect tests stays until the end: looking for
    garbage in it takes a fourth of the time of collecting.
    """
    gc.disable()
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    slow = [HealthCheck.too_slow]
    patient = settings(max_examples=examples(100), deadline=None, suppress_health_check=slow)
    settings.register_profile("suite", patient, derandomize=not is_whole(), database=None)
    settings.load_profile("suite")


def pytest_xdist_auto_num_workers() -> int:
    """Return half as many workers again as there are cores.

    Tests wait for processes, limits of time and locks of builds: a worker a core leaves a fifth of
    the cores idle.
    """
    return len(os.sched_getaffinity(0)) * 3 // 2


def pytest_report_header() -> str:
    """Say at the top of the output which tests run."""
    return (
        "tests: all, and every member of each corpus"
        if is_whole()
        else (f"tests: all but evidence, and a sample of each corpus ({EVIDENCE}=1 for the rest)")
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is evidence, unless asked for; the longest folders run first."""
    left_out = [] if is_whole() else [one for one in items if one.get_closest_marker("evidence")]
    config.hook.pytest_deselected(items=left_out)
    first = {"integration": 0, "cluster": 1}
    kept = [item for item in items if item not in left_out]
    items[:] = sorted(kept, key=lambda item: min(first.get(part, 2) for part in item.path.parts))


def pytest_collection_finish() -> None:
    """Collect garbage from now on, though never among modules and tests, which all stay."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Point `CUDA_LLM_CACHE` at a folder that every worker of this run shares.

    What was measured, leased or quarantined in it ends with the run; what was compiled outlives it.
    """
    base = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    cache = (base.parent if is_worker else base) / "cuda-llm-cache"
    cache.mkdir(exist_ok=True)
    for kind in KEPT_KINDS:
        (KEPT / kind).mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            (cache / kind).symlink_to(KEPT / kind)
    os.environ["CUDA_LLM_CACHE"] = str(cache)
    return cache


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_is_heard() -> None:
    """What a shell starts in the background ignores it, and so would the commands under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
