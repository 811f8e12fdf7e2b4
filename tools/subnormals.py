"""Floats below the smallest normal number, which CuPy would take for zeros.

CuPy compiles every kernel with `-ftz=true`. Subnormal inputs would then be drawn as zeros, expected
values of such inputs would be zeros, and who flushes could not be told from who is right.
"""

from typing import Any

import numpy as np

_EXACT = "-DCUDA_LLM_KEEPS_SUBNORMALS"
"""Marks what is compiled without it, in CuPy's cache too."""
FLUSHED = "this CuPy takes subnormal numbers for zeros: kernels that do so are not found out"


def keep_subnormals(compiler: Any) -> None:
    """Have CuPy's kernels in this process compute with subnormal numbers from now on.

    `compiler` is the module `cupy.cuda.compiler`, which has no setting for it. One that is made
    otherwise is left as it is: see `keeps_subnormals`.
    """
    program = getattr(compiler, "_NVRTCProgram", None)
    with_cache = getattr(compiler, "_compile_with_cache_cuda", None)
    if program is None or with_cache is None or hasattr(with_cache, "keeps_subnormals"):
        return
    compile_program = program.compile

    def compile_exactly(self: Any, options: tuple[str, ...] = (), *more: Any, **named: Any) -> Any:
        if _EXACT in options:
            options = tuple(one for one in options if not one.startswith("-ftz="))
        return compile_program(self, options, *more, **named)

    def marked(source: str, options: tuple[str, ...] = (), *more: Any, **named: Any) -> Any:
        return with_cache(source, (*options, _EXACT), *more, **named)

    marked.keeps_subnormals = True  # type: ignore[attr-defined]
    program.compile = compile_exactly
    compiler._compile_with_cache_cuda = marked


def keeps_subnormals(xp: Any) -> bool:
    """Whether a subnormal number survives being widened and narrowed. `xp` is NumPy or CuPy."""
    smallest = float(np.finfo(np.float32).smallest_subnormal)
    number = xp.full(1, 5 * smallest, xp.float64).astype(xp.float32).astype(xp.float64)
    return bool(number[0] == 5 * smallest)
