"""inputs.py makes arrays that fit together, and says in a line what does not."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import TaskError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.made_inputs import describe_made, make_inputs
from cuda_llm.tasks.task import Task

FOLDER = Path(__file__).parents[1] / "fixtures/tasks/sparse_rows"
TASK = load_task(FOLDER)
FUNCTIONS = ("even", "power_law", "one_row")


@given(
    function=st.sampled_from(FUNCTIONS),
    seed=st.integers(0, 2**62),
    rows=st.integers(1, 40),
    nonzeros=st.integers(1, 200),
)
def test_offsets_and_weights_fit_together(
    function: str, seed: int, rows: int, nonzeros: int
) -> None:
    made = make_inputs(TASK, function, seed, {"rows": rows, "nonzeros": nonzeros})
    lengths = np.diff(made["offsets"])
    assert (made["offsets"][0], made["offsets"][-1]) == (0, nonzeros)
    assert (lengths >= 0).all()
    assert (made["weights"][lengths == 0] == 0).all()
    assert {name: one.dtype.name for name, one in made.items()} == {
        "offsets": "int32",
        "weights": "float32",
    }


def test_a_seed_decides_what_is_made() -> None:
    one, again, other = (
        make_inputs(TASK, "power_law", seed, {"rows": 50, "nonzeros": 900}) for seed in (1, 1, 2)
    )
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not np.array_equal(one["offsets"], other["offsets"])


def test_the_first_line_of_a_docstring_says_what_is_made(tmp_path: Path) -> None:
    assert describe_made(FOLDER / "inputs.py", "power_law") == (
        "Few long rows and many short or empty ones"
    )
    bare = tmp_path / "inputs.py"
    bare.write_text("def page_table(rng):\n    return {}\n")
    assert describe_made(bare, "page_table") == "page table"


def changed(tmp_path: Path, file: str, old: str, new: str) -> Task:
    folder = tmp_path / "changed"
    shutil.copytree(FOLDER, folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    return load_task(folder)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "def even(rng, *, rows, nonzeros)",
            "def odd(rng)",
            "even: not found; expected",
        ),
        ("rows, nonzeros):", "rows, columns):", "even: asks for columns; expected one of"),
        ('"offsets": offsets, ', "", "returned ['weights']; expected a dict with ['offsets', "),
        ('"offsets": offsets', '"offsets": offsets[1:]', "offsets has shape (4,); expected (5,)"),
        (
            '"offsets": offsets',
            '"offsets": offsets + 2**40',
            "numbers that int32 can hold",
        ),
        ('"offsets": offsets', '"offsets": offsets + 0.5', "numbers that int32 can hold"),
        ("lengths = np.diff(offsets)", "lengths = 1 / 0", "ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_function_does_wrong_is_said_in_a_line(
    tmp_path: Path, old: str, new: str, fault: str
) -> None:
    task = changed(tmp_path, "inputs.py", old, new)
    with pytest.raises(TaskError) as raised:
        make_inputs(task, "even", 1, {"rows": 4, "nonzeros": 9})
    assert fault in str(raised.value)
    assert str(raised.value).startswith(f"{task.folder / 'inputs.py'}: ")
    assert "\n" not in str(raised.value)


def test_arguments_that_are_made_name_the_same_functions(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"argument weights: .* as for every argument that inputs"):
        changed(
            tmp_path,
            "task.toml",
            'shape = ["rows"]\ndistributions = ["inputs.even", ',
            'shape = ["rows"]\ndistributions = [',
        )


def test_a_function_without_an_inputs_py_is_a_fault_of_the_task(tmp_path: Path) -> None:
    folder = tmp_path / "bare"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("inputs.py"))
    with pytest.raises(TaskError, match=r"argument offsets: .*expected an inputs.py beside"):
        load_task(folder)
