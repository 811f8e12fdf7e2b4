"""`kernels.toml` is read whole, or refused on one line that names the key."""

from pathlib import Path

import pytest

from cuda_llm.errors import UsageError
from cuda_llm.tools.gate.plan import read_plan

ONE = '[kernel.add]\nfile = "add.cu"\ntask = "vector_add"\n'


def test_files_and_task_folders_stand_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kernels.toml"
    path.write_text(ONE + '[kernel.own]\nfile = "own.cu"\ntask = "mine"\n')
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/task.toml").touch()
    plan = read_plan(path)
    add, own = plan.file.kernel.values()
    assert plan.source_of(add) == tmp_path / "add.cu"
    assert (plan.task_of(add), plan.task_of(own)) == ("vector_add", str(tmp_path / "mine"))
    assert plan.recording == tmp_path / "kernels.gate.json"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no kernel"),
        ("[kernel.add]\nfile = 'add.cu'\n", "task"),
        (ONE + "acept.slower = 1\n", "acept.*accept"),
        (ONE + "accept.slower = -1\n", "accept.slower.*share"),
        (ONE + "accept.slower = 5\n", "accept.slower.*0.05 is 5 %"),
        (ONE + "accept.verdict = 'DATARACE'\n", "did you mean DATA_RACE"),
        ("precision = 'best'\n" + ONE, "precision"),
        ("[kernel", "is not TOML"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "kernels.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=complaint) as refused:
        read_plan(path)
    assert str(refused.value).startswith(str(path)) and "\n" not in str(refused.value)
