from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_llm.tools.cuda.arrays import keep_subnormals, keeps_subnormals


def compiler() -> SimpleNamespace:
    """Put together as CuPy's: options grow on their way through the cache to the program."""
    known: list[tuple[str, ...]] = []

    class Program:
        def compile(self, options: tuple[str, ...] = (), log_stream: Any = None) -> None:
            known.append(options)

    def with_cache(source: str, options: tuple[str, ...], arch: str, **_: Any) -> tuple[str, ...]:
        whole = (*options, "-ftz=true", f"-arch={arch}")
        Program().compile(whole)
        return whole

    made = SimpleNamespace(_NVRTCProgram=Program, _compile_with_cache_cuda=with_cache, known=known)
    made.compile = lambda: made._compile_with_cache_cuda("", ("-I.",), "90", backend="nvrtc")
    return made


def test_what_is_compiled_from_now_on_does_not_flush() -> None:
    made = compiler()
    made.compile()
    keep_subnormals(made)
    made.compile()
    flushing, exact = made.known
    assert "-ftz=true" in flushing
    assert not any(option.startswith("-ftz") for option in exact)
    assert {"-I.", "-arch=90"} <= set(exact)


def test_a_cache_takes_neither_for_the_other() -> None:
    made = compiler()
    before = made.compile()
    keep_subnormals(made)
    assert made.compile() != before


def test_it_is_done_once_however_often_it_is_asked_for() -> None:
    made = compiler()
    for _ in range(3):
        keep_subnormals(made)
    assert made.compile().count("-DCUDA_LLM_KEEPS_SUBNORMALS") == 1


def test_a_compiler_made_otherwise_is_left_alone() -> None:
    other = SimpleNamespace()
    keep_subnormals(other)
    assert vars(other) == {}


@pytest.mark.filterwarnings("ignore")
def test_who_flushes_is_found_out() -> None:
    assert keeps_subnormals(np)
    tiny = np.finfo(np.float32).tiny

    class Flushed(np.ndarray):
        def astype(self, dtype: Any, *more: Any, **named: Any) -> Any:
            cast = np.asarray(self).astype(dtype)
            return np.where(np.abs(cast) < tiny, 0, cast).astype(dtype).view(Flushed)

    flushing = SimpleNamespace(
        full=lambda *a: np.full(*a).view(Flushed), float32=np.float32, float64=np.float64
    )
    assert not keeps_subnormals(flushing)
