"""A candidate goes on where it stood: the folder knows which stages are behind it."""

import asyncio
import json
from pathlib import Path
from typing import get_type_hints

from graph_runs import context_in

from cuda_llm.graph import state
from cuda_llm.graph.candidate import run_stage
from cuda_llm.search import Brief, Draft, Kind
from cuda_llm.traces.event_log import read_events


def test_a_stage_that_an_earlier_process_left_is_not_entered_again(tmp_path: Path) -> None:
    context = context_in(tmp_path)
    context.folder.write_brief(Brief(id="r1-c1", round=1, index=1, kind=Kind.FIRST))
    context.folder.write_draft("r1-c1", Draft(source="int ok_80_1;\n"))
    kept = context.folder.candidate("r1-c1") / "seconds.json"
    kept.write_text(json.dumps({"generate": 12.5}))

    assert asyncio.run(run_stage(context, "r1-c1", "generate")) == ""

    assert read_events(context.folder.events) == ()
    assert json.loads(kept.read_text()) == {"generate": 12.5}
    assert context.folder.draft("r1-c1") == Draft(source="int ok_80_1;\n")


def test_a_candidate_shares_no_key_with_its_parent() -> None:
    own = get_type_hints(state.CandidateState)
    assert not set(own) & set(get_type_hints(state.SearchState))
