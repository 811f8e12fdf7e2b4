"""Arrays in the memory of a GPU: CuPy, with random numbers and kernels of our own."""

from cuda_llm.errors import MissingError
from cuda_llm.tools.arrays import Arrays
from cuda_llm.tools.launch_on_gpu import launch_on_gpu


def on_gpu() -> Arrays:
    """CuPy on the current device; all memory comes from its own pool. Raises MissingError."""
    try:
        import cupy
    except ImportError as error:
        raise MissingError("CuPy", "pip install 'cuda-llm[gpu]'") from error
    from cuda_llm.tools.random_on_gpu import random_on_gpu
    from cuda_llm.tools.subnormals import keep_subnormals

    keep_subnormals(cupy.cuda.compiler)
    # Reductions made of CUB's templates take up to nine seconds each to compile.
    cupy._core.set_reduction_accelerators([])
    return Arrays(
        xp=cupy,
        generator=random_on_gpu,
        to_host=cupy.asnumpy,
        at_once=1 << 24,
        part_bytes=1 << 31,
        launch=launch_on_gpu,
    )
