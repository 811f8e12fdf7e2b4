"""References: called with what they name, held to what they promise."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from array_kernels import OUTPUTS
from task_fixtures import array_kernels

from cuda_llm.errors import NoMemory, TaskError, lacks_memory
from cuda_llm.tasks.expressions import evaluate
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.reference import load_reference
from cuda_llm.tasks.sizes import shape_of
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tasks.tolerances import Terms, limits
from cuda_llm.tools.validator.distributions import draw as drawn

Array = npt.NDArray[Any]


def write(folder: Path, text: str) -> Task:
    (folder / "reference.py").write_text(text)
    return load_task(folder)


def draw(task: Task, dims: dict[str, int], seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    inputs: dict[str, Array] = {}
    for argument in task.arguments:
        if argument.role in (ArgumentRole.IN, ArgumentRole.INOUT):
            shape = shape_of(argument, dims)
            if argument.dtype == "int32":
                spelling = argument.distributions[seed % len(argument.distributions)]
                inputs[argument.name] = drawn(spelling, rng, shape, np.int32, dims)
            else:
                inputs[argument.name] = rng.standard_normal(shape).astype(argument.dtype)
    return inputs


def by_loops(task: str, inputs: dict[str, Array], dims: dict[str, int]) -> Array:
    """The definition, element by element, in Python's own arithmetic."""
    if task == "vector_add":
        pairs = zip(inputs["A"].tolist(), inputs["B"].tolist(), strict=True)
        return np.array([a + b for a, b in pairs])
    if task == "matrix_transpose":
        rows = inputs["input"].tolist()
        return np.array([[row[j] for row in rows] for j in range(dims["cols"])])
    if task == "reduction":
        return np.array([sum(inputs["input"].tolist())])
    if task == "histogram":
        values = inputs["input"].tolist()
        return np.array([values.count(b) for b in range(dims["num_bins"])])
    if task == "matrix_multiplication":
        a, b = inputs["A"].tolist(), inputs["B"].tolist()
        return np.array(
            [[sum(a[i][k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))]
             for i in range(len(a))]
        )  # fmt: skip
    image, weights = inputs["input"].tolist(), inputs["filter"].tolist()
    terms = [(r, s) for r in range(dims["R"]) for s in range(dims["S"])]
    return np.array(
        [[sum(image[i + r][j + s] * weights[r][s] for r, s in terms)
          for j in range(dims["W"] - dims["S"] + 1)]
         for i in range(dims["H"] - dims["R"] + 1)]
    )  # fmt: skip


@pytest.mark.parametrize("name", list_tasks())
def test_shipped_references_agree_with_their_definition(name: str) -> None:
    task = load_task(name)
    small = [size for size in task.sizes.edge if is_small(task, size)]
    assert small
    for seed, size in enumerate(small):
        dims = dict(size)
        inputs = draw(task, dims, seed)
        results = load_reference(task).compute(np, inputs, dims)
        for output, expected in definition(name, inputs, dims).items():
            result = results[output]
            np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
            moved = task.tolerance.kind == "exact" and task.tolerance.bits
            assert moved or result.dtype in (np.float64, np.int64)


def is_small(task: Task, dims: Mapping[str, int]) -> bool:
    """Whether Python's own arithmetic takes no seconds."""
    elements = np.prod([float(extent) for extent in dims.values()])
    return bool(elements < 2e4 and evaluate(task.roofline.flops, dims) < 4e5)


def definition(name: str, inputs: dict[str, Array], dims: dict[str, int]) -> Mapping[str, Any]:
    """What a task's outputs are, by its own definition."""
    written = array_kernels(name)
    if written is not None:
        return written.by_definition(inputs, dims)
    return {OUTPUTS[name]: by_loops(name, inputs, dims)}


@pytest.mark.parametrize("name", ["matrix_multiplication", "reduction", "conv2d"])
def test_scales_bound_the_result(name: str) -> None:
    task = load_task(name)
    dims = dict(task.sizes.edge[5])
    inputs = draw(task, dims, 1)
    reference = load_reference(task)
    assert reference.scale is not None
    (scale,) = reference.scale(np, inputs, dims).values()
    (result,) = reference.compute(np, inputs, dims).values()
    assert np.all(scale >= np.abs(result))
    assert np.all(scale > 0)


def test_inputs_are_promoted_copies(folder: Path) -> None:
    task = write(
        folder,
        "def reference(xp, *, x, n):\n"
        "    assert x.dtype == xp.float64 and n == 3\n"
        "    x[0] = 9\n"
        "    return {'y': x}\n",
    )
    x = np.zeros(3, np.float32)
    assert load_reference(task).compute(np, {"x": x}, {"n": 3})["y"][0] == 9
    assert x[0] == 0


def test_inputs_keep_their_types_where_a_reference_asks_for_it(folder: Path) -> None:
    task = write(folder, "PROMOTED = False\ndef reference(xp, *, x):\n    return {'y': x}\n")
    x = np.zeros(3, np.float32)
    assert load_reference(task).compute(np, {"x": x}, {"n": 3})["y"] is x


@pytest.mark.parametrize("name", list_tasks())
def test_shipped_references_write_to_no_input(name: str) -> None:
    task = load_task(name)
    dims = dict(task.sizes.edge[5])
    inputs = draw(task, dims, 0)
    for array in inputs.values():
        array.setflags(write=False)
    before = {name: array.copy() for name, array in inputs.items()}
    reference = load_reference(task)
    for function in filter(None, (reference.compute, reference.scale)):
        function(np, inputs, dims)
    for name, array in inputs.items():
        assert np.array_equal(array, before[name]), name


@pytest.mark.parametrize("extreme", [False, True])
@pytest.mark.parametrize(("calls", "n", "num_bins"), [(1, 40_000, 3), (3, 5_001, 1), (5, 64, 7)])
def test_values_counted_in_turns_are_counted_once(
    calls: int, n: int, num_bins: int, extreme: bool
) -> None:
    rng, ends = np.random.default_rng(n), np.iinfo(np.int32)
    low, high = (ends.min, ends.max) if extreme else (-2, num_bins + 2)
    values = rng.integers(low, high, (calls, n), dtype=np.int32, endpoint=True)
    values[:, ::9] = num_bins - 1
    reference, dims = load_reference(load_task("histogram")), {"n": n, "num_bins": num_bins}
    counted = reference.compute(np, {"input": values}, dims)["histogram"]
    expected = [[np.count_nonzero(row == b) for b in range(num_bins)] for row in values]
    assert counted.tolist() == expected


def test_a_comparator_sees_what_the_candidate_wrote(folder: Path) -> None:
    file = folder / "task.toml"
    file.write_text(file.read_text().replace("linear = true", 'comparator = "judge"'))
    task = write(
        folder,
        "def reference(xp, *, x):\n    return {'y': x}\n"
        "def judge(xp, got, *, x):\n    return {'y': abs(got['y'] - x)}\n",
    )
    comparator = load_reference(task).comparator
    assert comparator is not None
    x = np.ones(2, np.float32)
    errors = comparator(np, {"y": np.array([1.0, 3.0])}, {"x": x}, {"n": 2})
    assert errors["y"].tolist() == [0.0, 2.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "def reference(xp, *, z):\n    return {}\n",
            "reference: asks for z; expected one of n, x",
        ),
        ("def reference(xp, *, y):\n    return {}\n", "asks for y; expected one of n, x"),
        ("def other(xp):\n    return {}\n", "reference: not found; expected a function"),
        ("def reference(:\n", "SyntaxError"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError"),
        (
            "SPLIT = 'm'\ndef reference(xp, *, x):\n    return {'y': x}\n",
            "SPLIT = 'm'; expected an extent of y, which has n",
        ),
        (
            "SPLIT = 'n'\ndef reference(xp, *, x):\n    return {'y': x}\n"
            "def project(xp, vectors, *, x):\n    return {'y': x @ vectors}\n"
            "project_scale = project\n",
            "project: expected SPLIT to name another axis",
        ),
    ],
)
def test_refuses_a_broken_file_when_it_is_loaded(folder: Path, text: str, message: str) -> None:
    task = write(folder, text)
    with pytest.raises(TaskError) as caught:
        load_reference(task)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return x", "returned ndarray; expected a dict with ['y']"),
        ("return {'z': x}", "returned ['z']; expected a dict with ['y']"),
        ("return {'y': x[1:]}", "y has shape (1,); expected (2,) at {'n': 2}"),
        ("return {'y': x / None}", "TypeError: "),
    ],
)
def test_refuses_a_broken_answer_when_it_is_given(folder: Path, body: str, message: str) -> None:
    task = write(folder, f"def reference(xp, *, x):\n    {body}\n")
    with pytest.raises(TaskError) as caught:
        load_reference(task).compute(np, {"x": np.ones(2, np.float32)}, {"n": 2})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [n for n in list_tasks() if load_reference(load_task(n)).batched])
def test_many_calls_at_once_are_what_each_is_alone(name: str) -> None:
    task = load_task(name)
    reference, dims = load_reference(task), dict(task.sizes.edge[5])
    calls = [draw(task, dims, seed) for seed in range(3)]
    together = {key: np.stack([call[key] for call in calls]) for key in calls[0]}
    for function in filter(None, (reference.compute, reference.scale)):
        made = function(np, together, dims)
        for number, call in enumerate(calls):
            for key, value in function(np, call, dims).items():
                assert made[key][number] == pytest.approx(value, rel=1e-14, abs=1e-13)


def test_projections_are_those_of_the_reference() -> None:
    task = load_task("matrix_multiplication")
    reference, dims = load_reference(task), {"M": 5, "N": 40, "K": 7}
    assert reference.project is not None
    assert reference.project_scale is not None
    assert reference.scale is not None
    inputs = draw(task, dims, 0)
    vectors = np.random.default_rng(1).choice((-1.0, 0.0, 1.0), (40, 6))
    projected = reference.project(np, vectors, inputs, dims)["C"]
    assert projected == pytest.approx(reference.compute(np, inputs, dims)["C"] @ vectors)
    scales = reference.scale(np, inputs, dims)["C"]
    norms = np.sqrt(scales**2 @ vectors**2)
    bound = reference.project_scale(np, vectors, inputs, dims)["C"]
    assert (bound >= norms * (1 - 1e-12)).all()
    assert (bound <= 2 * norms).all()


def test_a_task_without_a_reference_is_refused(folder: Path) -> None:
    (folder / "reference.py").unlink()
    with pytest.raises(TaskError, match="has no reference"):
        load_reference(load_task(folder))


@pytest.mark.parametrize("error", ["MemoryError('2 GB')", "ValueError('2 GB')"])
def test_memory_that_lacks_is_no_fault_of_the_reference(folder: Path, error: str) -> None:
    """CuPy's own error is a MemoryError."""
    task = write(folder, f"def reference(xp, *, x, n):\n    raise {error}\n")
    expected = NoMemory if error.startswith("MemoryError") else TaskError
    with pytest.raises(expected, match="reference"):
        load_reference(task).compute(np, {"x": np.zeros(3, np.float32)}, {"n": 3})


def test_drivers_and_libraries_say_in_words_that_memory_lacks() -> None:
    named = {"cupy_backends.cuda.libs.cublas": "CUBLAS_STATUS_ALLOC_FAILED"}
    named |= {"torch": "CUDA out of memory. Tried to allocate 2 GiB"}
    for module, text in named.items():
        kind = type("LibraryError", (RuntimeError,), {"__module__": module})
        assert lacks_memory(kind(text))
        assert not lacks_memory(kind("an illegal memory access was encountered"))
    assert not lacks_memory(RuntimeError("out of memory, says a task"))


@pytest.mark.parametrize("rows", [2**17, 2**20])
@pytest.mark.parametrize("offset", [0, -1])
def test_one_float32_accumulator_is_an_honest_way_to_add_up_least_squares(
    rows: int, offset: int
) -> None:
    task = load_task("ordinary_least_squares")
    allowed = limits(task.tolerance, Terms())
    rng = np.random.default_rng(rows)
    dims = {"n_samples": rows, "n_features": 3}
    X = drawn(f"full_rank({offset})", rng, (rows, 3), np.float32, dims)
    y = rng.standard_normal(rows).astype(np.float32)
    columns = [*X.T, y]
    chained = np.empty((3, 4))
    for row, column in np.ndindex(3, 4):
        products = columns[row] * columns[column]
        chained[row, column] = np.add.accumulate(products, dtype=np.float32)[-1]
    found = np.linalg.solve(chained[:, :3], chained[:, 3])

    reference = load_reference(task)
    assert reference.scale is not None
    expected = reference.compute(np, {"X": X, "y": y}, dims)["beta"]
    scale = reference.scale(np, {"X": X, "y": y}, dims)["beta"]
    units = np.abs(found - expected) / (allowed.unit * scale)
    assert 0.01 < units.max() < allowed.max_units / 2
