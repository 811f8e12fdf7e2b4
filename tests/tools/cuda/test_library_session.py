"""Files that call a library: what is loaded, and the one line that says why another is not."""

from pathlib import Path

import pytest

from cuda_llm.errors import TaskError
from cuda_llm.tasks.library import load_library
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.device.candidate import LibraryCall

CALL = "NAME = 'torch.add'\ndef call(torch, *, A, C, n):\n    torch.add(A, n, out=C)\n"


def written(folder: Path, text: str) -> LibraryCall:
    file = folder / "vendor.py"
    file.write_text(text)
    return LibraryCall(file=file, arguments=("A", "C", "n"))


def test_a_call_is_given_the_arguments_that_it_names(tmp_path: Path) -> None:
    library = load_library(written(tmp_path, CALL).file, ("A", "C", "n"))
    assert (library.name, library.wanted) == ("torch.add", ("A", "C", "n"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CALL.replace("NAME", "OTHER"), "expected NAME, a text, and call"),
        (CALL.replace("def call", "def other"), "expected NAME, a text, and call"),
        (CALL.replace("A, C, n)", "A, B, n)"), "call: asks for B; expected one of A, C, n"),
        ("def call(", "SyntaxError"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
    ],
)
def test_what_is_no_call_is_told_in_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(TaskError) as caught:
        load_library(written(tmp_path, text).file, ("A", "C", "n"))
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "vendor.py"))
    assert complaint in message
    assert "\n" not in message


def test_the_calls_of_shipped_tasks_load() -> None:
    for name in list_tasks():
        task = load_task(name)
        names = tuple(one.name for one in task.arguments)
        for file in task.libraries:
            if file.suffix == ".py":
                assert load_library(file, names).wanted
