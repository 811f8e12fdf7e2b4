"""Where times are measured, a screen names contenders and a duel decides."""

import asyncio
from pathlib import Path
from typing import Any

from graph_runs import Writer, context_in, run_graph
from measured_runs import DuelTableBench, declared, measured_context
from searches import attempt, situation

from cuda_llm.agents.limits import whole_profile
from cuda_llm.agents.prompting.describe_kernel import describe_profile
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import choose_fastest
from cuda_llm.graph.incumbent import MOST_DUELS, next_contenders
from cuda_llm.graph.measurements import read_inspection
from cuda_llm.outcomes import DataRace, LateWrite, Passed
from cuda_llm.search import Brief, Draft
from cuda_llm.tools.device.inspection import EMULATED, KernelCounters
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import ContestHeld, IncumbentChosen, KernelInspected
from cuda_llm.traces.run_text import describe_run


def rounds_of(*rounds: tuple[int, ...]) -> Writer:
    """Writes kernels that take so many microseconds, by round and index."""

    def write(brief: Brief, _: Situation) -> Draft:
        us = rounds[brief.round - 1][brief.index - 1]
        return Draft(source=f"int ok_{us}_{brief.round}{brief.index};\n")

    return Writer(write)


def run(context: Any) -> dict[str, Any]:
    return asyncio.run(run_graph(context))


def events_of_kind(context: Any, kind: type) -> list[Any]:
    return [one.event for one in read_events(context.folder.events) if isinstance(one.event, kind)]


def with_bench(folder: Path, bench: DuelTableBench, *rounds: tuple[int, ...]) -> Any:
    sizes = {"candidates": len(rounds[0]), "rounds": len(rounds)}
    return measured_context(folder, bench, generator=rounds_of(*rounds), **sizes)


def test_a_faster_attempt_becomes_the_incumbent_only_after_a_duel(
    tmp_path: Path,
) -> None:
    context = with_bench(tmp_path, DuelTableBench(), (90, 80), (70, 85))
    state = run(context)

    (held,) = events_of_kind(context, ContestHeld)
    assert (held.contender, held.incumbent, held.outcome) == ("r2-c1", "r1-c2", "faster")
    assert held.speedup_low < held.speedup < held.speedup_high
    assert state["best"]["id"] == "r2-c1"
    assert "timed in turn" in events_of_kind(context, IncumbentChosen)[-1].reason


def test_a_gain_that_the_duel_does_not_confirm_leaves_the_incumbent(tmp_path: Path) -> None:
    context = with_bench(tmp_path, DuelTableBench(ratios={"ok_70_21": 1.0}), (80, 90), (70, 95))
    state = run(context)

    assert state["best"]["id"] == "r1-c1"
    assert events_of_kind(context, IncumbentChosen)[-1].verdicts["r2-c1"] == "tie"


def test_a_tie_of_separate_times_may_be_won_in_a_duel(tmp_path: Path) -> None:
    """1.3 % is within the doubt of two screens, and beyond that of a duel."""
    context = with_bench(
        tmp_path, DuelTableBench(ratios={"ok_790_21": 0.97}), (800, 900), (790, 950)
    )
    state = run(context)

    assert state["best"]["id"] == "r2-c1"


def test_after_a_lost_duel_the_next_contender_is_timed(tmp_path: Path) -> None:
    bench = DuelTableBench(ratios={"ok_60_21": 1.2})
    context = with_bench(tmp_path, bench, (80, 90), (60, 70))
    state = run(context)

    assert [one.contender for one in events_of_kind(context, ContestHeld)] == ["r2-c1", "r2-c2"]
    assert state["best"]["id"] == "r2-c2"


def test_a_round_has_a_limit_of_duels_and_no_attempt_wins_without_one(
    tmp_path: Path,
) -> None:
    contenders = (60, 61, 62, 63, 64)
    losing = {f"ok_{us}_2{index}": 1.1 for index, us in enumerate(contenders, 1)}
    context = with_bench(tmp_path, DuelTableBench(ratios=losing), (80, 81, 82, 83, 84), contenders)
    state = run(context)

    assert len(events_of_kind(context, ContestHeld)) == MOST_DUELS
    assert events_of_kind(context, IncumbentChosen)[-1].incumbent == "r1-c1"
    assert "no duel: 3 others" in events_of_kind(context, IncumbentChosen)[-1].verdicts["r2-c4"]
    assert state["best"] is not None


def test_a_kernel_that_is_wrong_when_it_is_timed_never_becomes_the_incumbent(
    tmp_path: Path,
) -> None:
    late = LateWrite(buffer="C")
    context = with_bench(tmp_path, DuelTableBench(faults={"ok_60_21": late}), (80, 90), (60, 85))
    run(context)

    (held,) = events_of_kind(context, ContestHeld)
    assert held.fault == "LATE_WRITE"
    choice = events_of_kind(context, IncumbentChosen)[-1]
    assert choice.incumbent == "r1-c1"
    assert "LATE_WRITE" in choice.verdicts["r2-c1"]


def test_only_a_future_incumbent_is_inspected(tmp_path: Path) -> None:
    bench = DuelTableBench()
    run(with_bench(tmp_path, bench, (80, 90), (70, 60)))

    seen = [declared(line) for line in bench.log if line.startswith("inspect")]
    assert seen == ["ok_80_11", "ok_60_22"]


def test_files_of_an_inspection_are_stored_with_the_kernel(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(b"\xff code")
    context = with_bench(
        tmp_path / "run", DuelTableBench(artefacts={"kernel.sass": made}), (80, 90)
    )
    run(context)

    assert (context.folder.candidate("r1-c1") / "kernel.sass").read_bytes() == b"\xff code"
    assert not (context.folder.candidate("r1-c2") / "kernel.sass").exists()


def test_counters_of_the_incumbent_explain_its_time_from_then_on(tmp_path: Path) -> None:
    busy = KernelCounters(
        kernel="ok", duration_us=79.0, flushed=True, figures={"issue_share": 0.9}, origin=EMULATED
    )
    context = with_bench(tmp_path, DuelTableBench(counters=(busy,)), (80, 90))
    run(context)

    verdict = context.folder.verdict("r1-c1")
    assert isinstance(verdict, Passed)
    assert verdict.profile is not None
    first = verdict.profile.bottlenecks[0]
    assert first.code == "issue"
    assert first.explanation.endswith("(counted on the emulated device)")
    chosen, other = context.folder.attempt("r1-c1"), context.folder.attempt("r1-c2")
    assert (chosen.limited_by, other.limited_by) == ("issue", "")
    assert chosen.summary.endswith("limited by instruction issue")
    source = context.folder.source("r1-c1")
    kept = read_inspection(context.folder, source, context.folder.candidate("r1-c1"))
    assert kept is not None
    assert kept.counters == (busy,)


def test_the_next_round_is_told_what_was_counted_and_by_what(tmp_path: Path) -> None:
    busy = KernelCounters(
        kernel="ok", duration_us=79.0, flushed=True, figures={"issue_share": 0.9}, origin=EMULATED
    )
    lines: list[str] = []

    def write(brief: Brief, seen: Situation) -> Draft:
        if seen.incumbent is not None:
            profile = whole_profile(seen, seen.incumbent)
            assert profile is not None
            lines.extend(describe_profile(seen, seen.incumbent, profile))
        return Draft(source=f"int ok_{90 - brief.round}_{brief.round}{brief.index};\n")

    bench = DuelTableBench(counters=(busy,))
    run(measured_context(tmp_path, bench, generator=Writer(write), candidates=1, rounds=2))

    assert lines[0].startswith("limited by the schedulers issue in 90% of all clocks (counted on")


def test_a_fault_found_by_the_inspection_keeps_the_incumbent(tmp_path: Path) -> None:
    race = DataRace(kind="write-write")
    context = with_bench(tmp_path, DuelTableBench(findings={"ok_80_11": race}), (80, 90))
    state = run(context)

    assert [one.code for one in events_of_kind(context, KernelInspected)] == ["DATA_RACE", ""]
    assert events_of_kind(context, IncumbentChosen)[-1].incumbent == "r1-c2"
    assert state["incumbent"] == "r1-c2"


def test_a_kernel_that_could_not_be_inspected_is_chosen_and_the_reason_is_told(
    tmp_path: Path,
) -> None:
    why = "gpu_host: out of memory"
    bench = DuelTableBench(not_inspected={"ok_80_11": why})
    context = with_bench(tmp_path, bench, (80, 90), (70, 60))
    run(context)

    shown = [(one.attempt, one.not_inspected) for one in events_of_kind(context, KernelInspected)]
    assert shown == [("r1-c1", why), ("r2-c2", "")]
    assert events_of_kind(context, IncumbentChosen)[0].incumbent == "r1-c1"
    written = " ".join(" ".join(describe_run(context.folder)).split())
    assert f"r1-c1: not inspected: {why}; watched" in written
    assert "r2-c2: nothing found; watched" in written


def test_an_unfit_attempt_is_no_result_either(tmp_path: Path) -> None:
    race = DataRace(kind="write-write")
    context = with_bench(tmp_path, DuelTableBench(findings={"ok_80_11": race}), (80,))
    state = run(context)

    assert state["unfit"].keys() == {"r1-c1"}
    assert state["best"] is None


def test_modelled_times_need_no_duel(tmp_path: Path) -> None:
    bench = DuelTableBench(ratios={"ok_70_21": 1.2})
    context = context_in(
        tmp_path, bench=bench, generator=rounds_of((80,), (70,)), candidates=1, rounds=2
    )
    state = run(context)

    assert not events_of_kind(context, ContestHeld)
    assert state["best"]["id"] == "r2-c1"


def test_a_bench_without_duels_leaves_the_choice_to_the_strategy(tmp_path: Path) -> None:
    from graph_runs import TableBench
    from measured_runs import measuring_device

    context = context_in(
        tmp_path,
        bench=TableBench(),
        generator=rounds_of((80,), (70,)),
        device=measuring_device(),
        candidates=1,
        rounds=2,
    )
    assert run(context)["best"]["id"] == "r2-c1"


def test_those_that_may_be_as_fast_are_timed_together_and_the_fastest_wins(tmp_path: Path) -> None:
    bench = DuelTableBench(ratios={"ok_600_21": 0.8, "ok_605_22": 0.7})
    context = with_bench(tmp_path, bench, (800, 900, 950), (600, 605, 700))
    state = run(context)

    held = events_of_kind(context, ContestHeld)
    assert [one.contender for one in held] == ["r2-c1", "r2-c2"]
    assert len({one.seconds for one in held}) == 1
    choice = events_of_kind(context, IncumbentChosen)[-1]
    assert choice.incumbent == state["best"]["id"] == "r2-c2"
    assert choice.verdicts["r2-c1"] == "slower than r2-c2, timed together"


def test_where_the_fastest_is_at_fault_the_next_one_is_timed_again(tmp_path: Path) -> None:
    race = DataRace(kind="write-write")
    bench = DuelTableBench(
        ratios={"ok_600_21": 0.8, "ok_605_22": 0.7}, findings={"ok_605_22": race}
    )
    context = with_bench(tmp_path, bench, (800, 900, 950), (600, 605, 700))
    run(context)

    assert [one.contender for one in events_of_kind(context, ContestHeld)] == [
        *("r2-c1", "r2-c2"),
        "r2-c1",
    ]
    assert events_of_kind(context, IncumbentChosen)[-1].incumbent == "r2-c1"


def test_who_cannot_gain_by_the_screen_is_not_timed(tmp_path: Path) -> None:
    context = with_bench(tmp_path, DuelTableBench(), (800, 900), (810, 802))
    run(context)

    assert not events_of_kind(context, ContestHeld)


FIVE_SIZES = tuple({"rows": 2**k, "cols": 2**k} for k in range(5))


def named_beside(*contenders: tuple[float, float]) -> list[str]:
    """Who is timed beside an incumbent of 2x, by speed-up and spread, on five sizes."""
    incumbent = attempt("r1-c1", speedup=2.0, spread=0.02)
    others = [
        attempt(f"r2-c{index}", speedup=speedup, spread=spread)
        for index, (speedup, spread) in enumerate(contenders, 1)
    ]
    seen = situation(incumbent, *others, incumbent=incumbent.id, sizes=FIVE_SIZES)
    return next_contenders(seen, choose_fastest(seen, others))


def test_screens_rule_a_gain_out_by_the_doubt_of_the_whole_score() -> None:
    """Each size is known to 2 %: the mean of five to 0.9 %, and that of two kernels to 1.6 %."""
    assert named_beside((2.03, 0.02)) == ["r2-c1"]
    assert named_beside((2.0, 0.02)) == []
    assert named_beside((2.0, 0.10)) == ["r2-c1"]


def test_who_cannot_be_the_fastest_is_not_timed() -> None:
    assert named_beside((2.2, 0.02), (2.19, 0.02), (2.12, 0.02)) == ["r2-c1", "r2-c2"]


def test_a_tie_that_regresses_at_a_size_is_not_timed_for_it_may_not_win() -> None:
    before = attempt("r1-c1", speedup=2.0, spread=0.02)
    sound = attempt("r2-c1", speedup=2.03, spread=0.02)
    regresses = attempt("r2-c1", speedup=2.03, spread=0.02, times_us=(40.0, 120.0))
    for other, names in ((sound, ["r2-c1"]), (regresses, [])):
        seen = situation(before, other, incumbent="r1-c1")
        assert next_contenders(seen, choose_fastest(seen, [other])) == names
