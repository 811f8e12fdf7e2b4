"""`docs/state.md` says what the code holds."""

from pathlib import Path
from typing import get_type_hints

from cuda_llm.graph import state
from cuda_llm.graph.candidate import STAGE_NODES as STAGES
from cuda_llm.graph.runs.build_graph import NODES

PAGE = (Path(__file__).parents[2] / "docs/state.md").read_text(encoding="utf-8")
_, CHANNELS, CANDIDATE = PAGE.split("\n## ")[1:]


def rows(part: str) -> dict[str, list[str]]:
    """Cells of a table by the name in the first."""
    found = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("| `")]
    return {cells[0].strip().strip("`"): [one.strip() for one in cells[1:]] for cells in found}


def reducers(schema: type) -> dict[str, str]:
    hints = get_type_hints(schema, include_extras=True)
    return {
        name: kind.__metadata__[0].__name__ if hasattr(kind, "__metadata__") else ""
        for name, kind in hints.items()
    }


def test_every_channel_is_listed_with_its_reducer() -> None:
    listed = {name: cells[-1] for name, cells in rows(CHANNELS).items()}
    assert listed == reducers(state.SearchUpdate)
    candidate = {name: cells[-1] for name, cells in rows(CANDIDATE).items()}
    assert candidate == reducers(state.CandidateState)


def test_every_writer_is_a_node() -> None:
    writers = {one.strip() for cells in rows(CHANNELS).values() for one in cells[1].split(",")}
    assert writers <= {*NODES, "extra agents"}
    stages = {one.strip() for cells in rows(CANDIDATE).values() for one in cells[1].split(",")}
    assert stages <= {*NODES, *STAGES}


def test_a_candidate_shares_no_key_with_its_parent() -> None:
    own = get_type_hints(state.CandidateState)
    assert not set(own) & set(get_type_hints(state.SearchState))
