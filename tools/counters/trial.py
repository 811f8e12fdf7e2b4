"""Whether a tool works on a driver that keeps files from its candidate: tried on a kernel of ours.

Tools inject code that opens files and sockets of its own, differently from version to version.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from cuda_llm.tools.compiler.candidate import Compiled, CompileRequest
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.toolkit import Toolkit
from cuda_llm.tools.compiler.workspace import private_folder
from cuda_llm.tools.counters.driver import program_words
from cuda_llm.tools.counters.enclosed import ToolRun, run_enclosed

NO_FENCE = "Landlock, with which {} does not work here: files are protected by the user's rights"

_SOURCE = """__global__ void write(float* out)
{
    out[threadIdx.x] = 1.0f;
}

extern "C" void solve(float* out)
{
    write<<<1, 32>>>(out);
}
"""

_known: dict[tuple[Path, str], bool] = {}
"""By tool and target, for as long as this process lives."""


async def works_confined(
    tool: Path,
    options: Sequence[str],
    is_right: Callable[[ToolRun], bool],
    toolkit: Toolkit,
    target: str,
    *,
    wall_s: float,
) -> bool:
    """Whether to confine what `tool` watches: always, unless only the unconfined kernel works.

    `is_right` tells of a run of the tool on a kernel without fault whether it did its work. Raises
    MissingError without nvcc, g++ or a writable cache.
    """
    key = (tool, target)
    if key not in _known:
        request = CompileRequest(source=_SOURCE, name="trial.cu", target=target)
        compiled = await compile_candidate(request)
        if not isinstance(compiled, Compiled):
            return True

        async def tried(confined: bool) -> bool:
            words = program_words(
                toolkit, compiled.library, ["out:128"], seed=1, warm_ups=0, confined=confined
            )
            with private_folder() as folder:
                run = await run_enclosed([str(tool), *options, *words], folder, wall_s=wall_s)
            return is_right(run)

        _known[key] = await tried(confined=True) or not await tried(confined=False)
    return _known[key]
