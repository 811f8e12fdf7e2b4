from searches import situation

from cuda_llm.agents.playbook.history import hint_preferences
from cuda_llm.agents.tunables.space import HintPreference, Space, Tunable
from cuda_llm.search import Hint

SPACE = Space(
    tunables=(
        Tunable(name="PAD", default=0, values=(0, 1)),
        Tunable(name="TILE", default=8, values=(8, 16, 32)),
    ),
    preferences=(
        HintPreference(code="bank_conflicts", values={"PAD": 1}),
        HintPreference(code="latency", values={"TILE": 32}),
        HintPreference(code="latency", values={"TILE": 16}),
        HintPreference(code="LAUNCH_FAILED", values={"TILE": 8}),
    ),
)


def hint(code: str, round: int) -> Hint:
    return Hint(round=round, about="", code=code, text="")


def test_the_newest_hints_prefer_the_values_a_playbook_lists_bottlenecks_first() -> None:
    where = situation(
        performance_hints=(hint("bank_conflicts", 1), hint("latency", 2), hint("USER", 3)),
        error_hints=(hint("LAUNCH_FAILED", 2), hint("LAUNCH_FAILED", 2)),
    )
    assert hint_preferences(SPACE, where, {"PAD": 0, "TILE": 64}) == (
        {"TILE": 32},
        {"TILE": 16},
        {"TILE": 8},
    )


def test_values_that_the_best_has_already_are_not_proposed() -> None:
    where = situation(performance_hints=(hint("bank_conflicts", 1), hint("latency", 1)))
    assert hint_preferences(SPACE, where, {"PAD": 1, "TILE": 32}) == ({"TILE": 16},)
