"""What a task says of a stream, a workspace and an output of stated content."""

from pathlib import Path

import pytest

from cuda_llm.errors import TaskError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.signature import host_context, prelude, signature

ARGUMENTS = """
[[arguments]]
name = "bins"
role = "out"
dtype = "int32"
shape = ["n"]
initial = "0"

[[arguments]]
name = "work"
role = "workspace"
dtype = "uint8"
shape = ["4 * n"]

[[arguments]]
name = "stream"
role = "stream"

[sizes]"""


def with_arguments(folder: Path, arguments: str) -> Path:
    file = folder / "task.toml"
    file.write_text(file.read_text().replace("[sizes]", arguments, 1))
    return folder


def test_each_has_its_place_in_the_signature(folder: Path) -> None:
    task = load_task(with_arguments(folder, ARGUMENTS))
    declared = "int* bins, unsigned char* work, cudaStream_t stream)"
    assert signature(task).endswith(declared)
    assert "#include <cuda_runtime_api.h>" in prelude(task)
    context = host_context(task)
    assert "bins [n] arrives filled with 0" in context
    assert "work [4 * n] for work between" in context
    assert "stream is the stream that is waited for and timed" in context


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('role = "stream"', 'role = "stream"\ndtype = "int32"', "no dtype for a stream"),
        ('role = "workspace"\ndtype = "uint8"', 'role = "workspace"', "argument work: "),
        ('initial = "0"', 'initial = "m"', "argument bins: "),
        ('role = "out"\n', 'role = "workspace"\n', "no initial where the role is workspace"),
    ],
)
def test_what_does_not_fit_is_named(folder: Path, old: str, new: str, message: str) -> None:
    assert old in ARGUMENTS
    with pytest.raises(TaskError) as caught:
        load_task(with_arguments(folder, ARGUMENTS.replace(old, new, 1)))
    assert message in str(caught.value)
