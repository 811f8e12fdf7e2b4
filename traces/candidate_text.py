"""One candidate of a run for a person: its brief, the answer to it, and its verdict."""

from collections.abc import Iterator

from cuda_llm.errors import UsageError
from cuda_llm.figure_wording import (
    describe_dims,
    describe_over,
    describe_share,
    describe_withdrawal,
)
from cuda_llm.outcomes import InfraFailed, NoCode, Passed
from cuda_llm.profile import Profile
from cuda_llm.source_file import short_kernel_name
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.run_text import INSIDE, describe_brief
from cuda_llm.traces.text import (
    describe_idea,
    describe_seconds,
    labelled,
    plural,
    us,
    verbatim,
    wrapped,
)
from cuda_llm.verdict_wording import describe, phrase

SHOWN = 8
"""Candidates that an error message names."""


def describe_candidate(run: RunFolder, name: str) -> Iterator[str]:
    """Yield the lines about one candidate. Raises UsageError for a name that the run lacks."""
    check_candidate(run, name)
    yield f"{name} of run {run.name}"
    yield from _brief(run, name)
    yield from _answer(run, name)
    yield from _verdict(run, name)
    source = run.source(name)
    if source:
        yield ""
        yield "source"
        yield from verbatim(source)


def check_candidate(run: RunFolder, name: str) -> None:
    """Raise UsageError for a name that the run lacks."""
    there = run.candidates()
    if name not in there:
        more = f" and {len(there) - SHOWN} more" if len(there) > SHOWN else ""
        have = ", ".join(there[:SHOWN]) + more or "none yet"
        raise UsageError(f"run {run.name} has no candidate {name!r}; it has {have}")


def _brief(run: RunFolder, name: str) -> Iterator[str]:
    brief = run.brief(name)
    if brief is not None:
        order = describe_brief(brief, run.read_run().get("generator", ""))
        yield from labelled("brief", f"round {brief.round}, {order}")
        if brief.history:
            yield from labelled("", f"knowing of {', '.join(brief.history)}")
        for one in brief.withdrawn:
            yield from labelled("withdrawn", describe_withdrawal(one))
        for hint in (*brief.error_hints, *brief.performance_hints):
            about = f", from {hint.about}" if hint.about else ""
            yield from labelled("hint", f"{hint.code}{about}: {hint.text}")
    prompt = run.candidate(name) / "prompt.md"
    if prompt.exists():
        yield from labelled("prompt", "")
        yield from verbatim(str(prompt))
    for question in sorted(run.candidate(name).glob("ask-*/prompt.md")):
        answered = (question.parent / "reply.md").exists()
        yield from labelled("asked", "" if answered else "without an answer")
        yield from verbatim(str(question.parent / "reply.md" if answered else question))


def _answer(run: RunFolder, name: str) -> Iterator[str]:
    folder = run.candidate(name)
    reply = run.load_reply(f"candidates/{name}")
    if reply is not None:
        usage = reply.usage
        cost = "" if usage.usd is None else f", ${usage.usd:,.4g}"
        text = f"{reply.model or 'model'}, {plural(usage.output_tokens, 'token')} in "
        yield from labelled("reply", f"{text}{reply.seconds:.1f} s{cost}, finish {reply.finish}")
        yield from verbatim(str(folder / "reply.md"))
    elif (folder / "prompt.md").exists():
        yield from labelled("reply", "none: the call never ended")
    draft = run.draft(name)
    if isinstance(draft, NoCode):
        yield from labelled("answer", f"no kernel ({draft.kind}): {describe(draft)[0]}")
    elif draft is not None:
        text = describe_idea(draft.idea, draft.tunables)
        if text:
            yield from labelled("idea", text)


def _verdict(run: RunFolder, name: str) -> Iterator[str]:
    verdict, attempt = run.kept_verdict(name), run.attempt(name)
    if verdict is None and attempt is None:
        yield from labelled("verdict", "not judged yet")
        return
    if attempt is not None:
        yield from labelled("written by", attempt.written_by)
    if verdict is None:
        if attempt is not None:
            yield from labelled("verdict", f"{attempt.code}: {attempt.summary}")
        return
    yield from labelled("verdict", verdict.code)
    for line in describe(verdict):
        yield from wrapped(line, indent=INSIDE)
    if isinstance(verdict, InfraFailed):
        yield from verbatim(verdict.traceback, indent=INSIDE)
    if isinstance(verdict, Passed) and verdict.profile is not None:
        yield from _profile(verdict.profile)
    if attempt is not None and attempt.seconds:
        yield from labelled("took", describe_seconds(attempt.seconds))


def _profile(profile: Profile) -> Iterator[str]:
    for size in profile.sizes:
        faster = ""
        if size.baseline_us is not None and size.speedup is not None:
            faster = f", baseline {us(size.baseline_us)}, {size.speedup:.2f}x"
        yield from labelled(size.source, f"{describe_dims(size.dims)}: {us(size.time_us)}{faster}")
    if profile.speedup is not None:
        over = describe_over(profile.objective, len(profile.sizes))
        faster = f"{profile.speedup:.2f}x the baseline's{over}, on {profile.device}"
        yield from labelled("speed", faster)
    for place, found in enumerate(profile.bottlenecks):
        spot = f" at {phrase(found.spot)}" if found.spot else ""
        label = "also" if place else "limited by"
        yield from labelled(label, f"{found.explanation}{spot}; {describe_share(found)}")
        if found.advice:
            yield from wrapped(found.advice, indent=INSIDE)
    for kernel in profile.resources:
        spilled = kernel.spill_store_bytes + kernel.spill_load_bytes
        needs = (
            f"{kernel.registers} registers, {kernel.shared_bytes:,} B shared, {spilled:,} B spilled"
        )
        yield from labelled("kernel", f"{short_kernel_name(kernel.kernel)}: {needs}")
