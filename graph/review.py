"""A person looks at the run before each round."""

from typing import Any

from cuda_llm.graph.lean import lean
from cuda_llm.graph.state import SearchState
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Hint
from cuda_llm.traces.events import HintGiven


def review(state: SearchState, wiring: Wiring) -> list[dict[str, Any]]:
    """Stop until the run is resumed, where the user asked for it; the hints given with that.

    Needs a checkpointer. What resumes the run is a list of hints, in words.
    """
    if not wiring.request.review or state["round"] < 0:
        return []
    from langgraph.types import interrupt

    shown = {"round": state["round"] + 1, "incumbent": state["incumbent"]}
    said = interrupt(shown)
    texts = [said] if isinstance(said, str) else list(said or ())
    hints = [
        Hint(round=state["round"], about="", code="USER", text=str(text), by="user")
        for text in texts
    ]
    for hint in hints:
        wiring.record(HintGiven(channel="performance_hints", hint=hint))
    return [lean(hint) for hint in hints]
