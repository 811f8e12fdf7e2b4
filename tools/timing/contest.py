"""Contenders and the incumbent, timed together until it is known of each whether it is faster.

All of them are in each block, at one size after the other. After a first pass over the sizes each
contender has a score (`sequential`). Who is faster, slower or equivalent beyond doubt is timed no
more; further passes measure what tells most of the others. The fastest then has its calls looked at
as in a confirmation: no other may become the incumbent.
"""

import asyncio
from collections.abc import Mapping

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.device import TimedSession
from cuda_llm.tools.timing.batch_room import reserve
from cuda_llm.tools.timing.blocks import (
    ComparedKernels,
    MeasurementFault,
    run_block,
    run_pair,
    verify_single_calls,
)
from cuda_llm.tools.timing.cheating import find_cheating, is_answered, needs_more_blocks
from cuda_llm.tools.timing.clocks import was_throttled
from cuda_llm.tools.timing.comparison import compare_blocks
from cuda_llm.tools.timing.contest_state import (
    EMPTY,
    INCUMBENT,
    Contest,
    ContestBlock,
    Contested,
    ContestResult,
    PreparedKernels,
    SizeRecord,
)
from cuda_llm.tools.timing.failures import baseline_refused, hidden_by_noise
from cuda_llm.tools.timing.interleave import CHANGE_FACTOR
from cuda_llm.tools.timing.measurement import (
    Measurement,
    reserve_for_baseline,
    rules_for,
    shuffled,
    time_baseline_at,
)
from cuda_llm.tools.timing.options import Tier
from cuda_llm.tools.timing.sequential import decide, decide_at_last, plan_pass
from cuda_llm.tools.timing.single_cases import check_small_case
from cuda_llm.tools.timing.slope import BatchLengths, BatchPair, PairLengths
from cuda_llm.tools.timing.slots import PreparedKernel, prepare_kernel
from cuda_llm.tools.timing.stopping import contest_rule, rule_for
from cuda_llm.tools.timing.verify import find_overwritten
from cuda_llm.tools.validator.budget import SizePlan


async def hold_contest(
    measurement: Measurement,
    contenders: Mapping[int, TimedSession],
    incumbent: TimedSession,
    baseline: TimedSession,
    *,
    prove_incumbent: bool = False,
) -> ContestResult | MeasurementFault:
    """Time all contenders, by number, and the incumbent; a fault of the incumbent ends it.

    `prove_incumbent`: where it stays, its calls are looked at too. Raises TaskError where the
    baseline is refused.
    """
    now_s = asyncio.get_running_loop().time
    tier = measurement.options.tier
    await reserve([incumbent, *contenders.values()], measurement.task, measurement.plan, tier)
    await reserve_for_baseline(measurement, baseline, measurement.plan)
    contest = Contest(
        measurement=measurement,
        sessions={INCUMBENT: incumbent, EMPTY: baseline, **contenders},
        rule=contest_rule(measurement.limit_s),
    )
    begun_s, looks = now_s(), 0
    seconds: dict[str, float] = {}
    for number, size in shuffled(measurement.plan.sizes):
        fault = await begin_size(contest, number, size) if contest.active else None
        if fault is not None:
            return fault
    seconds["first pass"] = now_s() - begun_s
    while contest.active:
        looks += 1
        until_s = begun_s + decide_all(contest, looks, now_s() - begun_s)
        for record, blocks in plan_visits(contest):
            late = now_s() >= until_s
            fault = None if late else await run_blocks(contest, record, blocks)
            if fault is not None:
                return fault
    decided_s = now_s()
    seconds["passes"] = decided_s - begun_s - seconds["first pass"]
    fastest = await prove_fastest(contest)
    fault = await prove(contest, INCUMBENT) if prove_incumbent and fastest is None else None
    seconds["proof"] = now_s() - decided_s
    return fault or ContestResult(ended=contest.ended, fastest=fastest, seconds=seconds)


def decide_all(contest: Contest, look: int, spent_s: float) -> float:
    """End the contest for each contender that is decided, and return the seconds after which all
    must be.

    Figures that are too wide decide nothing; at the time limit such a contest ends as noise.
    """
    rule, ends_s = contest.rule, contest.rule.wall_s
    for number in contest.active:
        vague = [one for one in contest.records if one.is_vague(number)]
        if vague and spent_s >= rule.longest_s:
            contest.fail(number, hidden_by_noise("times differ too much to be compared"), vague[0])
        elif vague:
            ends_s = rule.longest_s
        else:
            decide_one(contest, number, look, late=spent_s >= rule.wall_s)
    return ends_s


def decide_one(contest: Contest, number: int, look: int, *, late: bool) -> None:
    """End the contest for one contender where it is decided or this look is the last."""
    _, score = contest.score(number)
    outcome = decide(score, look)
    if outcome is not None:
        contest.end(number, outcome, score.half_width(look))
    elif late or score.is_settled:
        contest.end(number, decide_at_last(score, look), score.half_width(look, last=True))


def plan_visits(contest: Contest) -> list[tuple[SizeRecord, int]]:
    """Return how many blocks of which sizes come next, the size that is laid out now first.

    They are those that tell most of the contender of whom least is known.
    """
    if not contest.active:
        return []
    least_known = max(contest.active, key=lambda number: contest.score(number)[1].error)
    seconds = [one.seconds / len(one.blocks) for one in contest.records]
    sizes = contest.score(least_known)[0]
    planned = plan_pass(sizes, contest.deciding_shares(sizes), seconds)
    at = None if contest.prepared is None else contest.prepared.at
    visits = zip(contest.records, planned, strict=True)
    return sorted(
        ((record, blocks) for record, blocks in visits if blocks),
        key=lambda visit: visit[0].number != at,
    )


async def begin_size(contest: Contest, number: int, size: SizePlan) -> MeasurementFault | None:
    """Run the first blocks of a size; before them each candidate is called at a small case."""
    measurement, known = contest.measurement, contest.sessions
    baseline_time = await time_baseline_at(measurement, known[EMPTY], size)
    record = SizeRecord(
        number=number,
        size=size,
        baseline_time=baseline_time,
        rules=rules_for(measurement, size, baseline_time),
    )
    for candidate in (INCUMBENT, *contest.active):
        found = await check_small_case(measurement, known[candidate])
        fault = None
        if found is not None:
            fault = contest.fail(candidate, found, record, timed=False)
        if fault is not None:
            return fault
    contest.records.append(record)
    fault = await run_blocks(contest, record, contest.rule.first_blocks)
    contest.learn_paces(record)
    return fault


async def run_blocks(contest: Contest, record: SizeRecord, count: int) -> MeasurementFault | None:
    """Run `count` blocks at one size, or until no contender is left.

    The first block at a size gives the batch lengths; where it shows that more slots are needed,
    the slots are laid out again, once.
    """
    now_s = asyncio.get_running_loop().time
    lengths, ran = contest.lengths_at(record), 0
    while ran < count and contest.active:
        prepared = await prepare_at(contest, record, contest.slots_for(record, lengths[EMPTY]))
        if isinstance(prepared, MeasurementFault):
            return prepared
        begun_s = now_s()
        block = await run_contest_block(contest, record, prepared, lengths)
        if isinstance(block, MeasurementFault):
            return block
        is_first = not record.blocks
        record.blocks.append(block)
        record.seconds += now_s() - begun_s
        ran += 1
        if is_first:
            lengths = contest.lengths_at(record)
            if lengths[EMPTY].slots > CHANGE_FACTOR * prepared.slots:
                contest.learn_paces(record)
                record.blocks.clear()
                record.seconds, ran = 0.0, 0
    return None


async def prepare_at(
    contest: Contest, record: SizeRecord, count: int
) -> PreparedKernels | MeasurementFault:
    """Lay out and capture `count` slots of each kernel that is still timed, unless they are."""
    known = contest.prepared
    wanted = {INCUMBENT, EMPTY, *contest.active}
    if (
        known is not None
        and known.at == record.number
        and known.slots >= count
        and wanted <= known.kernels.keys()
    ):
        return known
    contest.prepared = None
    kernels: dict[int, PreparedKernel] = {}
    for number in (INCUMBENT, *contest.active, EMPTY):
        kernel = await prepare_one(contest, record, number, count)
        if isinstance(kernel, PreparedKernel):
            kernels[number] = kernel
            continue
        fault = contest.fail(number, kernel, record)
        if fault is not None:
            return fault
    by_host = [number for number, one in kernels.items() if one.includes_host]
    record.by_host.update(by_host)
    contest.prepared = PreparedKernels(at=record.number, kernels=kernels, slots=count)
    return contest.prepared


async def prepare_one(
    contest: Contest, record: SizeRecord, number: int, count: int
) -> PreparedKernel | Verdict:
    """Put one kernel into slots, or the baseline for batches without calls. Raises TaskError."""
    trusted = number == EMPTY
    input_plan = contest.measurement.input_plan(record.size)
    kernel = await prepare_kernel(
        contest.sessions[number], input_plan, count, trusted=trusted, capture=not trusted
    )
    if trusted and not isinstance(kernel, PreparedKernel):
        raise baseline_refused(contest.measurement.task, kernel)
    return kernel


async def run_contest_block(
    contest: Contest,
    record: SizeRecord,
    prepared: PreparedKernels,
    lengths: Mapping[int, BatchLengths],
) -> ContestBlock | MeasurementFault:
    """Run a pair of batches of each kernel in random order. Raises TaskError."""
    rules = record.rules
    before = rules.read_clocks()
    pairs: dict[int, BatchPair] = {}
    for number in rules.rng.permutation([EMPTY, INCUMBENT, *contest.active]).tolist():
        kernel = prepared.kernels[number]
        pair = await run_pair(kernel, lengths[number], rules, solve=number != EMPTY)
        if isinstance(pair, BatchPair):
            pairs[number] = pair
            continue
        if number == EMPTY:
            raise baseline_refused(contest.measurement.task, pair)
        fault = contest.fail(number, pair, record)
        if fault is not None:
            return fault
    return ContestBlock(pairs=pairs, throttled=was_throttled(before, rules.read_clocks()))


async def prove_fastest(contest: Contest) -> int | None:
    """Verify the calls of contenders that are faster, fastest first, until one contender has no
    fault."""
    faster = [
        (one.ratio, number)
        for number, one in contest.ended.items()
        if isinstance(one, Contested) and one.outcome == "faster"
    ]
    for _, number in sorted(faster):
        await prove(contest, number)
        if isinstance(contest.ended[number], Contested):
            return number
    return None


async def prove(contest: Contest, number: int) -> MeasurementFault | None:
    """Verify one kernel's calls at every size; `Contest.fail` records a fault."""
    for record in contest.records:
        found = await find_fault_of_calls(contest, record, number)
        if found is not None:
            return contest.fail(number, found, record)
    return None


async def find_fault_of_calls(contest: Contest, record: SizeRecord, number: int) -> Verdict | None:
    """Verify single calls and guards, and that calls took equally long in all batches. Raises
    TaskError.

    Blocks timed beside the incumbent count; where they are few and leave the answer open, blocks of
    the one kernel are added.
    """
    contest.prepared = None
    blocks = list(record.blocks_of(number))
    lengths = contest.lengths_of(record, number)
    count = contest.slots_for(record, lengths)
    kernel = await prepare_one(contest, record, number, count)
    if not isinstance(kernel, PreparedKernel):
        return kernel
    empty = await prepare_one(contest, record, EMPTY, count)
    assert isinstance(empty, PreparedKernel), "a baseline that is refused is an error"
    kernels = ComparedKernels(first=kernel, baseline=empty, ground=empty)
    alike = PairLengths(first=lengths, second=lengths)
    verdict = await verify_single_calls(kernel, record.rules)
    if verdict is not None:
        return verdict
    rule = rule_for(Tier.CONFIRM, len(contest.records))
    fewest = len(blocks)
    while True:
        while len(blocks) < fewest or needs_more_blocks(kernels, blocks):
            added = await run_block(kernels, alike, record.rules)
            if isinstance(added, MeasurementFault):
                return added.verdict
            blocks.append(added.block)
        found = await find_cheating(kernels, blocks, record.rules, rule, compare_blocks(blocks))
        if is_answered(found) or len(blocks) >= contest.rule.proof_blocks:
            break
        fewest = contest.rule.proof_blocks
    return found.verdict if isinstance(found, MeasurementFault) else find_overwritten(kernel)
