"""A person looks at the run before each round."""

from cuda_llm.graph.contributions import give
from cuda_llm.graph.state import SearchState
from cuda_llm.graph.wiring import Wiring
from cuda_llm.search import Hint


def review(state: SearchState, wiring: Wiring) -> list[str]:
    """Stop until the run is resumed, where the user asked for it; ids of the hints given with that.

    Needs a checkpointer. What resumes the run is a list of hints, in words.
    """
    if not wiring.request.review or state["round"] < 0:
        return []
    from langgraph.types import interrupt

    shown = {"round": state["round"] + 1, "incumbent": state["incumbent"]}
    answer = interrupt(shown)
    texts = [answer] if isinstance(answer, str) else list(answer or ())
    hints = [
        Hint(round=state["round"], about="", code="USER", text=str(text), by="user")
        for text in texts
    ]
    return give(wiring, "performance_hints", hints)
