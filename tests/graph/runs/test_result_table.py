"""A result in a script and in a notebook: in a line, as a table, as HTML, as a DataFrame."""

import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import nbformat
import pytest
from graph_runs import Learner, NoTuner, TableBench, Writer, numbered
from nbclient import NotebookClient
from run_starts import ReadyDevice

from cuda_llm import Result, optimize, read_run
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.graph.runs.result_table import FRAMES, NAMES, CandidateRow, make_frame, make_rows
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.events import ModelCalled, RunFinished

EXAMPLE = Path(__file__).parents[3] / "traces/examples/reduction-playbook"
EVIL = "</td><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31mred\n& so on"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Two rounds of four, of which a table judges."""
    return optimize(
        "vector_add",
        generator=Writer(numbered),
        bench=TableBench(),
        reflector=Learner(),
        tuner=NoTuner(),
        device=ReadyDevice(open_device("emulated").hardware),
        candidates=4,
        rounds=2,
        out=str(tmp_path_factory.mktemp("runs")),
    )


def hostile(result: Result) -> Result:
    """The same, its best and its failures told by somebody who means harm."""
    assert result.best is not None
    best = replace(result.best, idea=EVIL, spread=0.021)
    attempts = tuple(
        best if one.id == best.id else replace(one, summary=EVIL, direction=EVIL)
        for one in result.attempts
    )
    return replace(result, task=EVIL, attempts=attempts, best=best)


SHOWN_TAGS = {"div", "b", "br", "table", "thead", "tbody", "tr", "th", "td", "code"}


class Tags(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_result_says_in_two_lines_what_became_of_the_run(result: Result) -> None:
    first, second = repr(result).splitlines()
    assert result.best is not None
    assert first.startswith("<Result vector_add · emulated RTX 3090 Ti (times are modelled): best")
    assert f"best {result.best.id} {result.speedup:.2f}x the baseline over all sizes" in first
    assert "of 8 candidates passed in 2 rounds" in first
    assert second == f" {result.run_dir}>"
    assert "±2.1% at the largest size" in repr(hostile(result)).splitlines()[0]


def test_a_result_without_a_kernel_says_so(result: Result) -> None:
    none = replace(result, best=None, source="")
    assert "no kernel passed, the baseline is the answer" in repr(none)
    stopped = repr(replace(none, finished=False, reason="interrupted"))
    assert "none yet" in stopped
    assert "not finished: interrupted" in stopped


def test_a_run_read_back_shows_the_same(result: Result) -> None:
    back = read_run(result.run_dir)
    assert back == result
    assert repr(back) == repr(result)
    assert back.table() == result.table()
    assert read_run(result.run_id, result.run_dir.parent) == result
    with pytest.raises(UsageError, match="no run 'nothing'"):
        read_run("nothing", result.run_dir.parent)


def test_a_run_that_says_too_little_is_named(result: Result, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"version": 2, "request": {"seed": 0}}')
    (tmp_path / "events.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"run\.json: lacks task, device"):
        read_run(tmp_path)


def test_a_table_has_a_typed_row_for_each_candidate(result: Result) -> None:
    table = result.table()
    assert [row.id for row in table] == [one.id for one in result.attempts]
    (best,) = [row for row in table if row.best]
    assert result.best is not None
    assert (best.id, best.speedup, best.code) == (result.best.id, result.speedup, "PASSED")
    assert best.time_us == result.best.times_us[-1]
    assert isinstance(table[0], CandidateRow)
    assert table[:2] == (table[0], table[1])
    failed = [row for row in table if row.code == "COMPILE_FAILED"]
    assert failed
    assert all(row.speedup is None and row.time_us is None for row in failed)


def test_a_table_is_a_line_a_candidate_as_text(result: Result) -> None:
    head, *lines = str(result.table()).splitlines()
    assert head.split()[:2] == ["id", "result"]
    assert len(lines) == len(result.attempts)
    assert result.best is not None
    (best,) = [line for line in lines if line.startswith("*")]
    assert best.split()[1:4] == [result.best.id, "passed", f"{result.speedup:.2f}x"]
    evil = str(hostile(result).table())
    assert "\x1b" not in evil
    assert len(evil.splitlines()) == len(result.attempts) + 1


def test_a_row_counts_the_calls_that_concern_its_candidate() -> None:
    def call(where: str, usd: float | None) -> ModelCalled:
        used: dict[str, Any] = {"input_tokens": 100, "output_tokens": 10, "usd": usd}
        return ModelCalled(call=where, agent="generator", model="m", outcome="ok", **used)

    attempts = read_run(EXAMPLE).attempts[:2]
    first, second = attempts[0].id, attempts[1].id
    calls = (
        call(f"candidates/{first}", 0.25),
        call(f"candidates/{first}/ask-0", 0.5),
        call(f"candidates/{second}", None),
        call("rounds/1/critique", 9.0),
    )
    rows = make_rows(attempts, calls, None)
    assert [(row.input_tokens, row.output_tokens, row.usd) for row in rows] == [
        (200, 20, 0.75),
        (100, 10, None),
    ]


def test_html_is_small_escaped_and_without_a_script(result: Result) -> None:
    for one in (result, hostile(result)):
        text = one._repr_html_()
        seen = Tags(text)
        assert set(seen.tags) <= SHOWN_TAGS
        assert seen.attributes == {"style"}
        assert len(text) < 12_000
    assert any("<script>alert(1)</script>" in one for one in seen.texts)
    assert "\x1b" not in text


def test_html_of_many_candidates_shows_the_fastest(result: Result) -> None:
    many = replace(result, attempts=result.attempts * 60)
    assert len(many._repr_html_()) < 24_000
    assert "460 more in table()" in many._repr_html_()


@pytest.mark.parametrize("library", [name for name in FRAMES if find_spec(name)])
def test_a_data_frame_has_a_column_a_field_each_of_one_type(result: Result, library: Any) -> None:
    frame = result.to_dataframe(library)
    assert type(frame).__module__.startswith(library)
    assert list(frame.columns) == list(NAMES)
    assert len(frame) == len(result.attempts)
    assert list(frame["id"]) == [one.id for one in result.attempts]
    assert frame["speedup"].max() == result.speedup
    kinds = {name: str(frame[name].dtype).lower() for name in ("speedup", "usd", "best", "round")}
    assert kinds["speedup"] == kinds["usd"] == "float64"
    assert kinds["round"] == "int64"
    assert kinds["best"].startswith("bool")


def test_pandas_is_here_for_the_tests() -> None:
    assert find_spec("pandas")


def test_without_a_library_a_data_frame_names_the_mend(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in FRAMES:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        MissingError, match=r"pandas or polars is not installed; .*: pip install pandas"
    ):
        result.to_dataframe()
    with pytest.raises(MissingError, match=r"polars is not installed; .*: pip install polars"):
        result.to_dataframe("polars")
    with pytest.raises(UsageError, match="library 'os': expected pandas or polars"):
        make_frame(result.table(), "os")


def test_the_events_of_a_run_come_one_by_one(result: Result) -> None:
    events = result.events()
    first = next(iter(events))
    assert (first.seq, first.event.kind) == (1, "run_started")
    assert [one.seq for one in events] == list(range(1, len(list(events)) + 1))
    assert isinstance(list(events)[-1].event, RunFinished)
    assert events.missing == ""


@pytest.mark.evidence
def test_a_real_notebook_shows_a_result(tmp_path: Path) -> None:
    cells = [
        f"from cuda_llm import read_run\nresult = read_run({str(EXAMPLE)!r})",
        "result",
        "print(result.table())",
        "result.to_dataframe('pandas').head(2)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(one) for one in cells])
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": tmp_path}}).execute()
    (_, shown, printed, frame) = [cell["outputs"] for cell in notebook["cells"]]
    data = shown[0]["data"]
    assert data["text/plain"].startswith("<Result reduction")
    assert Tags(data["text/html"]).tags.count("tr") == 13
    assert printed[0]["text"].splitlines()[-1].startswith("*  r3-c4  passed")
    assert "r1-c2" in frame[0]["data"]["text/html"]
