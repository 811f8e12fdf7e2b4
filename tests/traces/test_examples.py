"""The runs under traces/examples/ are real ones, and can be read with what ships now."""

import json
import re
from pathlib import Path

import pytest

from cuda_llm import optimize, read_run
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import RunFinished, RunStarted
from cuda_llm.traces.find import find_run
from cuda_llm.traces.run_text import describe_run

ROOT = Path(__file__).parents[2] / "traces/examples"
EXAMPLES = sorted(path for path in ROOT.iterdir() if path.is_dir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_shown_from_start_to_winner(path: Path) -> None:
    run = find_run(str(path))
    events = [one.event for one in read_events(run.events)]
    assert isinstance(events[0], RunStarted)
    (finished,) = [one for one in events if isinstance(one, RunFinished)]
    assert finished.best is not None
    assert run.verdict(finished.best).code == "PASSED"
    assert run.source(finished.best) == (run.best / "solve.cu").read_text()
    assert any(finished.best in line and "winner" in line for line in describe_run(run))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_names_no_place_of_the_machine_it_ran_on(path: Path) -> None:
    for file in path.rglob("*"):
        if file.is_file():
            assert not re.search(r'["\s](/[a-z]+){2,}', file.read_text()), file


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_stores_each_hint_once_beside_the_prompts_that_show_it(path: Path) -> None:
    hints = [json.loads(one.read_text())["text"] for one in path.glob("hints/*.json")]
    assert hints
    for file in path.rglob("*"):
        if file.is_file() and file.parent.name != "hints" and file.name != "prompt.md":
            assert not [one for one in hints if one in file.read_text()], file


def test_examples_are_of_a_playbook_a_model_and_a_gpu() -> None:
    started = {path.name: started_of(path) for path in EXAMPLES}
    assert {"playbook", "llm"} <= {one.generator for one in started.values()}
    assert {"modelled", "measured"} <= {one.time_source for one in started.values()}
    replies = [len(list(path.glob("candidates/*/reply.md"))) for path in EXAMPLES]
    assert max(replies) >= 16


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_is_replayed_without_model_and_gpu(path: Path, tmp_path: Path) -> None:
    recorded = read_run(str(path))
    again = optimize(replay=str(path), out=str(tmp_path))
    assert again.best is not None
    assert recorded.best is not None
    assert (again.best.id, again.best.times_us) == (recorded.best.id, recorded.best.times_us)
    # A strategy of today may ask for more than the record can answer, as for another composition.
    answered = [one for one in again.attempts if one.code != "INFRA_RECORD"]
    assert [(one.id, one.code) for one in answered] == [
        (one.id, one.code) for one in recorded.attempts
    ]


def started_of(path: Path) -> RunStarted:
    event = next(iter(read_events(path / "events.jsonl"))).event
    assert isinstance(event, RunStarted)
    return event
