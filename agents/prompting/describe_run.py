"""A run in words for a prompt: task, GPU, hints and attempts; hidden sizes are never shown."""

from collections.abc import Collection, Iterator

from cuda_llm.agents.limits import BOTTLENECK_TEXTS, deciding_limiter, deciding_profile
from cuda_llm.agents.prompting.describe_kernel import (
    describe_differences,
    describe_figures,
    describe_within_context,
    figure_names,
    place_size,
)
from cuda_llm.agents.prompting.describe_lessons import describe_lessons
from cuda_llm.agents.prompting.quote import hide, join_parts, one_line, quote_line
from cuda_llm.agents.prompting.token_budget import Passage
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.acceptance import faster_at
from cuda_llm.agents.strategies.partners import best_at_sizes
from cuda_llm.components import Components
from cuda_llm.figure_wording import (
    SCORES,
    describe_dims,
    describe_over,
    describe_ratio,
    name_bottleneck,
    name_sizes,
)
from cuda_llm.outcomes import CompileFailed, Passed, Verdict
from cuda_llm.search import Attempt, Brief, Hint, Kind
from cuda_llm.source_file import SourceSpot
from cuda_llm.tasks.objective import scoring_of
from cuda_llm.tasks.task import Task

MOST_WHOLE = 9
"""Most attempts whose direction and idea are shown."""
MOST_SHOWN = 72
"""Most characters of a direction or an idea in a line of the history."""

USER = "USER"
MOST_TEXT = 1200
BEST = 3
"""Number of fastest attempts that are kept before any failure is."""


def describe_named_dims(task: Task) -> tuple[str, ...]:
    """Describe what each dim means, and what always holds of them."""
    meanings = (f"{name}: {meaning}" for name, meaning in task.dims.items())
    return (*meanings, *((f"always holds: {task.requires}",) if task.requires else ()))


def describe_sizes(situation: Situation) -> str:
    """Describe the timed sizes: the dims that all sizes share, then the dims in which sizes
    differ."""
    sizes = situation.sizes
    names = "; ".join(name_sizes(sizes))
    first = sizes[0] if len(sizes) > 1 else {}
    shared = {name: n for name, n in first.items() if len({dims[name] for dims in sizes}) == 1}
    common = describe_dims(shared)
    return f"{common}, and {names}" if common and names else names


def describe_score(situation: Situation) -> str:
    """Describe how the timed sizes make one score; empty where there is one size."""
    if len(situation.sizes) < 2:
        return ""
    scoring = scoring_of(situation.task, situation.sizes)
    score, shares = f"Their one score is {SCORES[scoring.objective]}", scoring.shares
    match scoring.objective:
        case "worst":
            return f"{score}: only the worst size counts."
        case "largest":
            return f"{score}, {name_sizes(situation.sizes)[-1]}: no other size counts."
    least = min(shares)
    how = "every size counts alike"
    if max(shares) > least:
        how = f"sizes count {' : '.join(f'{one / least:.3g}' for one in shares)}"
    return f"{score}, in which {how}."


def describe_allowed(task: Task) -> tuple[str, ...]:
    """Describe what this task allows beyond launching kernels."""
    allowed = task.capabilities
    lines = []
    if allowed.scratch_bytes.strip() != "0":
        lines.append(
            f"device memory of its own, {allowed.scratch_bytes} bytes at most (cudaMalloc or "
            "cudaMallocAsync and the matching free, inside every call)"
        )
    if allowed.device_to_host:
        lines.append("copies from device to host")
    if allowed.header_libraries:
        names = ", ".join(one_line(name) for name in allowed.header_libraries)
        lines.append(f"header libraries: {names}")
    if allowed.defines:
        pairs = ", ".join(f"{name}={value}" for name, value in allowed.defines.items())
        lines.append(f"macros it is compiled with: {one_line(pairs)}")
    if allowed.flags:
        lines.append(f"flags it is compiled with: {one_line(' '.join(allowed.flags))}")
    return tuple(lines)


def describe_expected(situation: Situation, brief: Brief, components: Components) -> str:
    """Describe what the direction can gain at most, and by what; empty where nothing is known.

    A first kernel and a fix have no time of their own: the gain over the baseline is shown.
    """
    if not (components.diversity and 0.0 < brief.share < 1.0):
        return ""
    open_ended = brief.kind is not Kind.IMPROVE
    if open_ended and situation.config.hardware_context != "full":
        return ""
    ratio = describe_ratio(1 / (1 - brief.share))
    if brief.kind in (Kind.FIRST, Kind.FIX):
        return f"Open above the baseline: {ratio}" if components.baseline else ""
    if not components.profile:
        return ""
    if open_ended:
        return f"To gain until the attainable: {ratio}"
    about = join_parts(
        name_bottleneck(brief.against) if brief.against else "", _places(situation, brief)
    )
    rise = 1 / (1 - brief.share) - 1
    return f"Worth at most {rise:.0%} of the score{f' ({about})' if about else ''}"


def _places(situation: Situation, brief: Brief) -> str:
    """Return the timed sizes at which the direction can gain, where they are not all."""
    names, sizes = name_sizes(situation.sizes), brief.sizes
    if not sizes or len(sizes) == len(names) or max(sizes) >= len(names):
        return ""
    first, last = sizes[0], sizes[-1]
    if len(sizes) == 1 or last - first != len(sizes) - 1:
        return ", ".join(names[one] for one in sizes)
    if last == len(names) - 1:
        return f"from {names[first]} on"
    return f"{'up' if first == 0 else names[first]} to {names[last]}"


def describe_hints(
    situation: Situation, brief: Brief, components: Components, *, ordered: bool = False
) -> Passage:
    """Describe the user's hints, those of errors, those of performance, the newest longest, and
    last the lessons of other tasks.

    With `ordered` only hints whose change is still to be tried are described, else all others: the
    words for a change depend on whom it was ordered of, all others are alike in each prompt about
    one parent.

    Without hints among the components only the user's hints remain: they were not learned. Evidence
    from a playbook kernel is left out, because it may quote the source; evidence from a profile is
    left out where prompts hold no profiles, and where this prompt holds the same profile.
    """
    given = (*brief.error_hints, *brief.performance_hints)
    hints = [one for one in given if components.hints or one.code == USER]
    learned = {hint.text for hint in hints}
    from_user = [_hint_of_user(text) for text in situation.config.hints if text not in learned]
    tried = {one.direction for one in situation.attempts}
    given = (*from_user, *sorted(hints, key=lambda hint: hint.code != USER))
    shown = [one for one in given if ordered == bool(one.change and one.change not in tried)]
    by_playbook = {one.id for one in situation.attempts if one.written_by == "playbook"}
    profiled = _codes_of_profile(situation, brief)

    def hides_evidence(hint: Hint) -> bool:
        if hint.about in by_playbook:
            return True
        if not components.profile:
            return hint.code in BOTTLENECK_TEXTS
        return hint.about == brief.parent and hint.code in profiled

    entries = tuple(
        "\n".join(
            _describe(situation, brief, hint, ordered=ordered, hide_evidence=hides_evidence(hint))
        )
        for hint in shown
    )
    newest_first = sorted(
        range(len(shown)), key=lambda index: (shown[index].code != USER, -shown[index].round)
    )
    lessons = "" if ordered else describe_lessons(situation, brief, components)
    if lessons:
        entries, newest_first = (*entries, lessons), [*newest_first, len(entries)]
    return Passage(entries=entries, ranking=tuple(newest_first), noun="hints")


def _codes_of_profile(situation: Situation, brief: Brief) -> set[str]:
    """Return the codes of what limits the brief's parent where its profile is shown."""
    parent = situation.attempt(brief.parent) if brief.parent else None
    verdict = situation.archive.verdict(parent.id) if parent else None
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if parent is None or profile is None:
        return set()
    return {one.code for one in deciding_profile(situation, parent, profile)[0].bottlenecks}


def _describe(
    situation: Situation, brief: Brief, hint: Hint, *, ordered: bool, hide_evidence: bool
) -> Iterator[str]:
    hardware, context = situation.hardware, situation.config.hardware_context
    text = one_line(hint.text, MOST_TEXT)
    if ordered and hint.change == brief.direction:
        text = "The direction below is what a critique of this kernel asks for."
    elif ordered and brief.kind is Kind.IMPROVE:
        text = f"Another attempt of this round is asked to: {text}"
    # A diagnosis is ours and names no hardware; what it quotes, and others' hints, may.
    if hint.by != "diagnosis":
        text = hide(text, hardware, context)
    source = " (from the user)" if hint.code == USER else ""
    about = f" ({hint.about}, {hint.code})" if hint.about else source
    yield f"- {text}{about}"
    if hint.hardware_text and context == "full":
        yield f"  {one_line(hint.hardware_text, MOST_TEXT)}"
    if hint.hardware_evidence and context == "full" and not hide_evidence:
        yield f"  {one_line(hint.hardware_evidence, MOST_TEXT)}"
    if hint.evidence and not hide_evidence:
        yield f"  seen: `{hide(one_line(hint.evidence), hardware, context)}`"
    if hint.avoid:
        avoid = "; ".join(one_line(text) for text in hint.avoid)
        yield f"  not worth trying: {hide(avoid, hardware, context)}"


def _hint_of_user(text: str) -> Hint:
    return Hint(round=0, about="", code=USER, text=text, by="user")


def describe_history(
    situation: Situation, ids: tuple[str, ...], components: Components, above: str | None = None
) -> Passage:
    """Describe the attempts, oldest first; short of room, keep the best at a size, then the best,
    then newest failures.

    The least important attempts are shown by their outcome alone. The attempt `above` is shown
    elsewhere in the prompt, so its outcome is left out; where another is faster at a size, its
    entry says so.
    """
    attempts = [situation.attempt(name) for name in ids]
    fastest = _fastest_beside(situation, above)
    ranking = _by_importance(attempts, fastest)
    whole = set(ranking[:MOST_WHOLE])
    entries = tuple(
        describe_attempt(
            situation,
            one,
            components,
            whole=index in whole,
            above=one.id == above,
            fastest_at=fastest.get(one.id, ""),
        )
        for index, one in enumerate(attempts)
    )
    return Passage(entries=entries, ranking=ranking, noun="attempts")


def describe_attempt(
    situation: Situation,
    attempt: Attempt,
    components: Components,
    *,
    whole: bool = True,
    above: bool = False,
    fastest_at: str = "",
) -> str:
    """Render `r1-c2: WRONG_RESULT: ...`, and below it, if `whole`, its direction and its idea.

    Of the kernel `above` the text shows what the direction asked for, and of the fastest at a size
    the idea tells more.
    """
    came_from = f", {attempt.kind.value} of {attempt.parent}" if attempt.parent else ""
    came_from += f" and {attempt.second}" if attempt.second else ""
    shown = above and attempt.passed
    outcome = "the kernel above" if shown else _outcome(situation, attempt, components)
    first = f"{attempt.id}{came_from}: {outcome}"
    directed = components.diversity and not shown and not fastest_at
    direction = one_line(attempt.direction, MOST_SHOWN) if directed else ""
    hardware, context = situation.hardware, situation.config.hardware_context
    idea = hide(one_line(attempt.idea, MOST_SHOWN), hardware, context)
    tunables = ", ".join(f"{name} = {value}" for name, value in attempt.tunables.items())
    changed = ""
    if attempt.parent and not attempt.second and attempt.passed and components.profile:
        parent = situation.attempt(attempt.parent)
        changed = describe_differences(situation, parent, attempt)
    second = "; ".join(
        f"{label}: {text}"
        for label, text in (
            ("fastest at", fastest_at),
            ("direction", direction),
            ("idea", idea.removesuffix(".") if fastest_at else "" if changed else idea),
            ("changed", changed),
            ("tunables", one_line(tunables)),
        )
        if text
    )
    return f"{first}\n    {second}" if second and whole else first


def _fastest_beside(situation: Situation, above: str | None) -> dict[str, str]:
    """Return by id the sizes at which kernels are the best, and faster than the one `above`."""
    shown = situation.attempt(above) if above else None
    if shown is None or not shown.passed:
        return {}
    found: dict[str, list[str]] = {}
    names = name_sizes(situation.sizes)
    for index, one in enumerate(best_at_sizes(situation)):
        if index in faster_at(one, shown):
            found.setdefault(one.id, []).append(names[index])
    return {name: " and ".join(sizes) for name, sizes in found.items()}


def describe_history_key(
    situation: Situation, components: Components, above: Attempt | None = None
) -> str:
    """Describe the figures in a line of the history, and the sizes that they belong to; those of
    the attempt `above` are shown in a table."""
    if not situation.sizes:
        return ""
    if above is not None and above.passed:
        return "figures at each timed size as in the table"
    return f"at each timed size: {', '.join(figure_names(situation, components))}"


def _outcome(situation: Situation, attempt: Attempt, components: Components) -> str:
    """Render score, limit and figures at each size; of a failure the finding and its line.

    A failed playbook kernel gives its code alone: a description may quote its source.
    """
    if not attempt.passed:
        found = "" if attempt.written_by == "playbook" else _finding(situation, attempt)
        return f"{attempt.code}: {found}" if found else attempt.code
    parts = list[str]()
    if components.baseline and attempt.speedup is not None:
        # The section on sizes says what the usual score is.
        usual = attempt.objective == "geomean"
        over = "" if usual else describe_over(attempt.objective, len(attempt.times_us))
        parts.append(f"{attempt.speedup:.2f}x{over}")
    code, size = deciding_limiter(situation, attempt) if components.profile else ("", None)
    if code:
        where = "" if size is None else f" {place_size(situation, size)}"
        parts.append(f"limited by {name_bottleneck(code)}{where}")
    figures = "; ".join(describe_figures(situation, attempt, components))
    return ": ".join(filter(None, (", ".join(parts) or "correct", figures)))


def _finding(situation: Situation, attempt: Attempt) -> str:
    """Return the first line of the verdict's description, and the line of source it is about."""
    verdict = situation.archive.verdict(attempt.id)
    lines = describe_within_context(situation, verdict)
    where = quote_line(_spot_of(verdict))
    where = hide(where, situation.hardware, situation.config.hardware_context)
    return join_parts(one_line(next(iter(lines), ""), 240), where)


def _spot_of(verdict: Verdict) -> SourceSpot | None:
    """Return the line of source that a failure is about."""
    if isinstance(verdict, CompileFailed):
        return verdict.first_error.spot if verdict.first_error else None
    spot: SourceSpot | None = getattr(verdict, "spot", None)
    return spot


def _by_importance(attempts: list[Attempt], fastest: Collection[str]) -> tuple[int, ...]:
    """Return indices: those of `fastest`, the fastest few, then failures from the newest on, then
    by speed."""
    indices = range(len(attempts))
    passed = sorted(
        (index for index in indices if attempts[index].passed),
        key=lambda index: (-_speed(attempts[index]), index),
    )
    failed = [index for index in reversed(indices) if not attempts[index].passed]
    at_sizes = [index for index in passed if attempts[index].id in fastest]
    return tuple(dict.fromkeys((*at_sizes, *passed[:BEST], *failed, *passed[BEST:])))


def _speed(attempt: Attempt) -> float:
    return attempt.speedup or (1.0 / attempt.times_us[-1] if attempt.times_us else 0.0)
