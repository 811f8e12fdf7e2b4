"""A switch of `fsr` is on by default only where the seeds held back say that it gains."""

import json
import math
from pathlib import Path

import strategy_switches

from cuda_llm.agents.strategies.builtin import Fsr, find_strategy

RESULT = Path(__file__).parents[2] / "benchmarks/results/strategy_switches.json"


def test_the_default_is_what_the_recorded_figures_say() -> None:
    recorded = json.loads(RESULT.read_text())
    for name in ("composition", "elites", "pairs"):
        least = []
        for half in ("chosen", "held_back"):
            found = recorded[half][name]["at 20"]
            least.append(math.log(found["mean"]) - found["within_95"])
        assert getattr(Fsr(), name) == (min(least) > 0), name


def test_no_seed_lost_much_by_the_default() -> None:
    recorded = json.loads(RESULT.read_text())
    for half in ("chosen", "held_back"):
        assert all(one["worst_seed"] > 0.99 for one in recorded[half]["composition"].values())


def test_each_variant_differs_from_the_base_in_what_it_is_called() -> None:
    base = find_strategy(strategy_switches.BASE)
    for name, text in strategy_switches.VARIANTS.items():
        found = find_strategy(text)
        on = {one for one in ("composition", "elites", "pairs") if getattr(found, one)}
        assert on == (
            {"composition", "elites", "pairs"} if name == "all" else set(name.split(" and "))
        )
        assert not any(getattr(base, one) for one in on)


def test_a_gain_is_the_mean_over_tasks_and_seeds_and_its_spread_that_over_seeds() -> None:
    runs = {
        (task, variant, seed): [2.0 if variant == "elites" and task == "a" else 1.0] * 3
        for task in "ab"
        for variant in ("none", *strategy_switches.VARIANTS)
        for seed in range(4)
    }
    found = strategy_switches.compare(runs, ["a", "b"], range(4))
    assert found["elites"]["at 10"] == {
        "mean": 1.4142,
        "within_95": 0.0,
        "worst_seed": 1.4142,
        "best_seed": 1.4142,
    }
    assert found["pairs"]["at 20"]["mean"] == 1.0
