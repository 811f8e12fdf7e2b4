"""Exported CuPy and PyTorch packages on a real GPU, held against each task's float64 reference.

    python benchmarks/export_on_gpu.py write FOLDER [RUN...]   where cuda-llm is installed
    python benchmarks/export_on_gpu.py run FOLDER              where the GPU is

`write` exports these runs, or without any the baseline of every task. `run` needs NumPy, CuPy,
PyTorch, nvcc and this checkout, and nothing of cuda-llm: a user of an export has no more. It calls
each package on every edge size and a large one, with fresh and with given
outputs, on the default stream and on another, through torch.compile's operator, and with arguments
that must be refused. Exit code 1 when anything differs.
"""

import importlib
import importlib.util
import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[1]
TOLERANCE = 2e-5
"""Largest error relative to the reference's own scale: far above float32 sums of these sizes, far
below what a wrong element makes."""


def write(folder: Path, runs: list[str]) -> None:
    """Export for both frameworks."""
    sys.path.insert(0, str(ROOT / "tests/support"))
    from cuda_llm.traces.export.export import ExportFormat, export
    from cuda_llm.traces.export.winner import find_winner
    from cuda_llm.traces.find import find_run

    if runs:
        winners = [find_winner(find_run(run)) for run in runs]
    else:
        from exported_package import winner_of

        from cuda_llm.tasks.loader import list_tasks

        winners = [winner_of(name) for name in list_tasks()]
    for winner in winners:
        for to in get_args(ExportFormat):
            print(export(winner, to, folder / f"{winner.task.name}_{to}", force=True))


def run(folder: Path) -> int:
    """Call every package of `folder`; return the number of failures."""
    sys.path.insert(0, str(folder.resolve()))
    failures = 0
    for path in sorted(folder.glob("*_cupy")) + sorted(folder.glob("*_torch")):
        framework = path.name.rpartition("_")[2]
        task = json.loads((path / "proof.json").read_text())["task"]
        module = importlib.import_module(path.name)
        for what, check in checks(module, framework, task):
            try:
                check()
            except Exception as error:
                failures += 1
                print(f"FAILED {path.name} {what}: {type(error).__name__}: {error}")
        print(f"done   {path.name}", flush=True)
    return failures


def checks(module: Any, framework: str, task: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield the checks of one package, each with its name."""
    for dims in sizes(task):
        yield f"{dims}", partial(compare, module, framework, task, dims)
    small = sizes(task)[-2]
    yield "given outputs", lambda: compare(module, framework, task, small, given=True)
    yield "another stream", lambda: on_another_stream(module, framework, task, small)
    yield "refusals", lambda: refuse(module, framework, task, small)
    if framework == "torch":
        yield "operator", lambda: through_operator(module, task, small)


def sizes(task: str) -> list[dict[str, int]]:
    """Return the edge sizes and one that fills a GPU."""
    groups = tomllib.loads((ROOT / "tasks" / task / "task.toml").read_text())["sizes"]
    return [*groups["edge"], groups["emulated"][-1]]


def inputs(module: Any, dims: dict[str, int]) -> dict[str, Any]:
    """Draw inputs of the right shapes; whole numbers stay small enough to be bins and indices."""
    import numpy

    dice = numpy.random.default_rng(sum(dims.values()))
    contract = module._CONTRACT
    shapes = contract.shapes(**dims)
    made = {}
    for one in contract.buffers("in", "inout"):
        if one.dtype.startswith("float"):
            made[one.name] = dice.standard_normal(shapes[one.name]).astype(one.dtype)
        else:
            made[one.name] = dice.integers(0, min(dims.values()) + 1, shapes[one.name], one.dtype)
    return made


def expected(module: Any, task: str, given: dict[str, Any], dims: dict[str, int]) -> Any:
    """Return the values of the reference, and the scale its errors are counted in."""
    import inspect

    import numpy

    path = ROOT / "tasks" / task / "reference.py"
    spec = importlib.util.spec_from_file_location(f"reference_of_{task}", path)
    assert spec is not None and spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    exact = {
        name: array.astype(numpy.float64 if array.dtype.kind == "f" else numpy.int64)
        for name, array in given.items()
    }
    known = {**dims, **module._CONTRACT.scalars(**dims), **exact}

    def ask(function: Callable[..., Any]) -> Any:
        names = [name for name in inspect.signature(function).parameters if name != "xp"]
        return function(numpy, **{name: known[name] for name in names})

    right = ask(reference.reference)
    scale = ask(reference.scale) if hasattr(reference, "scale") else right
    return right, scale


def call(
    module: Any, framework: str, given: dict[str, Any], dims: dict[str, int], outputs: Any = ()
) -> Any:
    """Call the exported function with every dim that no input's shape gives."""
    function = getattr(module, module._CONTRACT.name)
    arrays = [to_device(framework, array) for array in given.values()]
    return function(*arrays, *outputs, **({} if outputs else unknown(module, dims)))


def unknown(module: Any, dims: dict[str, int]) -> dict[str, int]:
    """Return the dims that no input's shape gives."""
    given = {text for one in module._CONTRACT.buffers("in", "inout") for text in one.extents}
    return {name: extent for name, extent in dims.items() if name not in given}


def compare(
    module: Any, framework: str, task: str, dims: dict[str, int], given: bool = False
) -> None:
    """Compare kernel and reference. Raises AssertionError where they differ."""
    arrays = inputs(module, dims)
    shapes = module._CONTRACT.shapes(**dims)
    outputs = [
        empty(framework, shapes[one.name], one.dtype)
        for one in module._CONTRACT.buffers("out")
        if given
    ]
    result = call(module, framework, arrays, dims, outputs)
    assert not outputs or result is outputs[0], "the output that was given is not returned"
    agree(result, module, framework, task, arrays, dims)


def agree(
    result: Any,
    module: Any,
    framework: str,
    task: str,
    arrays: dict[str, Any],
    dims: dict[str, int],
) -> None:
    """Compare a result with the reference. Raises AssertionError where they differ."""
    import numpy

    (output,) = module._CONTRACT.buffers("out")
    right, scale = expected(module, task, arrays, dims)
    got = to_host(framework, result)
    assert got.shape == right[output.name].shape, f"shape {got.shape}"
    if got.dtype.kind != "f":
        assert (got == right[output.name]).all(), "differs"
        return
    error = numpy.abs(got - right[output.name]) / numpy.maximum(
        numpy.abs(scale[output.name]), 1e-30
    )
    assert error.max() <= TOLERANCE, f"error {error.max():.3g} of the scale"


def on_another_stream(module: Any, framework: str, task: str, dims: dict[str, int]) -> None:
    """Make input and read output on a stream that does not wait for the default one."""
    arrays = inputs(module, dims)
    if framework == "cupy":
        import cupy

        stream: Any = cupy.cuda.Stream(non_blocking=True)
        with stream:
            spin = cupy.zeros((4096, 4096), "float32")
            for _ in range(20):
                spin = spin @ spin
            result = call(module, framework, arrays, dims)
            copy = result.copy()
        stream.synchronize()
    else:
        import torch

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            spin = torch.zeros((4096, 4096), device="cuda")
            for _ in range(20):
                spin = spin @ spin
            result = call(module, framework, arrays, dims)
            copy = result.clone()
        stream.synchronize()
    agree(copy, module, framework, task, arrays, dims)


def through_operator(module: Any, task: str, dims: dict[str, int]) -> None:
    """Call the operator alone, and inside of torch.compile without a break of its graph."""
    import torch

    operator, arrays = module.operator(), inputs(module, dims)
    tensors = [to_device("torch", array) for array in arrays.values()]
    extra = unknown(module, dims)
    agree(operator(*tensors, **extra), module, "torch", task, arrays, dims)
    # Atomics on floats add in another order each time: equal within rounding is equal.
    torch.library.opcheck(operator, tuple(tensors), extra, rtol=TOLERANCE, atol=1e-3)
    compiled = torch.compile(
        lambda *given: operator(*given, **extra), fullgraph=True, backend="aot_eager"
    )
    agree(compiled(*tensors), module, "torch", task, arrays, dims)


def refuse(module: Any, framework: str, task: str, dims: dict[str, int]) -> None:
    """Check that arrays of the host, of another dtype and with gaps are refused before a launch."""
    arrays = inputs(module, dims)
    first, *others = arrays
    rest = [to_device(framework, arrays[name]) for name in others]
    function, extra = getattr(module, module._CONTRACT.name), unknown(module, dims)
    doubled = to_device(framework, arrays[first].repeat(2, axis=-1))
    for wrong in (
        arrays[first],
        to_device(framework, arrays[first].astype("float64")),
        doubled[..., ::2],
        to_device(framework, arrays[first].ravel())[None, None, None],
    ):
        try:
            function(wrong, *rest, **extra)
        except (TypeError, ValueError):
            continue
        raise AssertionError(f"took {type(wrong).__name__} {wrong.dtype} {tuple(wrong.shape)}")


def to_device(framework: str, array: Any) -> Any:
    """Copy to the GPU."""
    if framework == "cupy":
        import cupy

        return cupy.asarray(array)
    import torch

    return torch.from_numpy(array).cuda()


def to_host(framework: str, array: Any) -> Any:
    """Copy to the host; waits for the GPU."""
    if framework == "cupy":
        import cupy

        return cupy.asnumpy(array)
    return array.cpu().numpy()


def empty(framework: str, shape: tuple[int, ...], dtype: str) -> Any:
    """Return an uninitialised array on the GPU."""
    if framework == "cupy":
        import cupy

        return cupy.empty(shape, dtype)
    import torch

    return torch.empty(shape, dtype=getattr(torch, dtype), device="cuda")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["-h" | "--help"]:
            print(__doc__)
        case ["write", folder, *runs]:
            write(Path(folder), runs)
        case ["run", folder]:
            failed = run(Path(folder))
            print(f"{failed} failures" if failed else "all agree")
            sys.exit(1 if failed else 0)
        case _:
            sys.exit(__doc__)
