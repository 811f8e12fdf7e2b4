"""Orders of earlier runs, as the store of lessons holds them."""

from typing import Any

from cuda_llm.agents.techniques.catalogue import CHANGES
from cuda_llm.lessons import TriedOrder
from cuda_llm.search import Kind

GPU = "NVIDIA GeForce RTX 3090 Ti"


def text_of(sign: str) -> str:
    """The text of the change that a sign shows."""
    return next(one.text for one in CHANGES if one.shown_by == sign)


VECTORS = text_of("global_vectors")
LOADS_FIRST = text_of("loads_first")


def order(task: str, had: float | None = 0.12, **fields: Any) -> TriedOrder:
    """An improvement by vector loads against latency, on a task of another name."""
    given: dict[str, Any] = {
        "run": f"run-of-{task}",
        "candidate": "r2-c1",
        "gpu": GPU,
        "time_source": "modelled",
        "task": task,
        "task_kind": "elementwise",
        "kind": Kind.IMPROVE,
        "technique": VECTORS,
        "against": "latency",
        "promised": 0.2,
        "had": had,
        "gained": had is not None and had > 0.02,
    }
    return TriedOrder(**(given | fields))
