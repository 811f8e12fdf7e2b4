"""Finds the strategy that `--strategy` names."""

from collections.abc import Callable, Mapping

from cuda_llm.agents.strategies.best_of_n import BestOfN
from cuda_llm.agents.strategies.fsr import Fsr
from cuda_llm.agents.strategies.fsr_paper import FsrPaper
from cuda_llm.agents.strategy import Strategy
from cuda_llm.dotted import is_dotted, load_dotted
from cuda_llm.errors import UsageError

SHIPPED: Mapping[str, Callable[[], Strategy]] = {
    "fsr": Fsr,
    "fsr-paper": FsrPaper,
    "best-of-n": BestOfN,
}

PARTS = ("name", "deduplicate", "components", "write_briefs", "choose", "stop")


def find_strategy(name: str) -> Strategy:
    """Returns the strategy of a short name, or of a dotted path to a class or an instance.

    Raises UsageError naming what there is.
    """
    if name in SHIPPED:
        return SHIPPED[name]()
    if not is_dotted(name):
        msg = f"unknown strategy {name!r}; there are {', '.join(SHIPPED)}, or module:Class"
        raise UsageError(msg)
    found = load_dotted(name, "strategy")
    strategy: Strategy = found() if isinstance(found, type) else found
    missing = [part for part in PARTS if not hasattr(strategy, part)]
    if missing:
        msg = f"strategy {name!r} lacks {', '.join(missing)}; see cuda_llm.extend.Strategy"
        raise UsageError(msg)
    return strategy
