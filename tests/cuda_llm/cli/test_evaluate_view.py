"""The report for a person, in whatever terminal they have."""

from io import StringIO

import pytest
from rich.console import Console

from cuda_llm.cli.evaluate_view import show_table, without_common_folder
from cuda_llm.cli.progress import LiveProgress
from cuda_llm.outcomes import LoadFailed
from cuda_llm.tools.judge.judged import Judged


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a/b/x.cu", "a/b/y.cu"], ["x.cu", "y.cu"]),
        (["a/b/x.cu", "a/c/x.cu"], ["b/x.cu", "c/x.cu"]),
        (["x.cu", "a/x.cu"], ["x.cu", "a/x.cu"]),
        (["/k/x.cu", "/k/x.cu"], ["x.cu", "x.cu"]),
        (["abc/x.cu", "abd/x.cu"], ["abc/x.cu", "abd/x.cu"]),
    ],
)
def test_the_table_names_files_without_the_folder_they_share(
    names: list[str], short: list[str]
) -> None:
    assert without_common_folder(names) == short


def test_a_file_name_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    judged = [
        Judged(name=name, verdict=LoadFailed(detail="")) for name in ("[red]a.cu", "[/b]b.cu")
    ]
    show_table(judged)
    shown = capsys.readouterr().out
    assert "[red]a.cu" in shown
    assert "[/b]b.cu" in shown


def test_progress_has_one_line_a_file_whatever_its_name() -> None:
    progress = LiveProgress(["[/b]a.cu", "b.cu", "b.cu"])
    progress.enter("[/b]a.cu", "compile")
    console = Console(width=80, file=StringIO())
    with console.capture() as shown:
        console.print(progress.bars.get_renderable())
    lines = [line.strip() for line in shown.get().splitlines()]
    assert [line.split("  ")[0].split(" ", 1)[1] for line in lines] == ["[/b]a.cu", "b.cu"]
