"""Checks that code of users keeps to its protocol: a failing agent or generator does not end the
run, a failing strategy ends the run with one line."""

import asyncio
import json
import math
import traceback
from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from cuda_llm.agents.composition import CompositionRefused, describe_refusal
from cuda_llm.agents.protocols import Choice, Composer, Trial
from cuda_llm.agents.situation import Situation
from cuda_llm.codec import decode, encode
from cuda_llm.errors import CudaLLMError, UsageError, describe_error, lacks_memory
from cuda_llm.graph.context import RunContext
from cuda_llm.log import Log
from cuda_llm.outcomes import InfraFailed
from cuda_llm.redaction import redact
from cuda_llm.search import Attempt
from cuda_llm.traces.events import AgentDecided

T = TypeVar("T")

_log = Log(__name__)

MOST_CHARACTERS = 1 << 18
"""Longest answer of a part of the user's, as JSON: notes are in the state, and in every checkpoint
that follows."""
MOST_SOURCE = 1 << 21
"""Longest answer that holds a source, in characters of JSON."""


async def run_untrusted(
    component: str,
    work: Callable[[], Awaitable[T]],
    *kinds: type[Any],
    limit_s: float = math.inf,
    most: int = MOST_CHARACTERS,
) -> T | InfraFailed:
    """Return the checked answer of `work`, or an InfraFailed where `work` raised or timed out."""
    limit = asyncio.timeout(None if math.isinf(limit_s) else limit_s)
    failed: BaseException
    try:
        async with limit:
            return checked_answer(await work(), kinds, most)  # type: ignore[no-any-return]
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        failed = error
    except (Exception, SystemExit) as error:
        failed = error
    detail = f"not done within {limit_s:g} s" if limit.expired() else describe_error(failed)
    trace = None if limit.expired() or isinstance(failed, CudaLLMError) else failed
    # A command's progress shows the error of the candidate or the agent.
    _log.warning(
        "a part of the run failed", component=component, error=detail, exc_info=trace, shown=True
    )
    told = "" if trace is None else spell_traceback(trace)
    return InfraFailed(
        component=component, detail=detail, lacked_memory=lacks_memory(failed), traceback=told
    )


def spell_traceback(error: BaseException) -> str:
    """Return the traceback as Python prints it, without secrets; of a long traceback the two
    ends."""
    text: str = redact("".join(traceback.format_exception(error)))
    if len(text) <= MOST_CHARACTERS:
        return text
    half = MOST_CHARACTERS // 2
    return f"{text[:half]}\n... {len(text) - 2 * half:,} characters left out ...\n{text[-half:]}"


def checked_answer(made: object, kinds: tuple[type[Any], ...], most: int) -> Any:
    """Copy `made` by way of JSON: it has the types it declares and shares nothing with its maker.

    Raises TypeError and ValueError where it is none of `kinds`, no plain data, or too much of it.
    """
    kind = next((one for one in kinds if isinstance(made, one)), None)
    if kind is None:
        expected = " or ".join(one.__name__ for one in kinds)
        raise TypeError(f"answered with {type(made).__name__}; expected {expected}")
    text = json.dumps(encode(made), allow_nan=False)
    if len(text) > most:
        raise ValueError(f"answered with {len(text):,} characters; at most {most:,} are taken")
    try:
        return decode(kind, json.loads(text))
    except ValueError as error:
        raise ValueError(f"{kind.__name__}.{error}") from None


def choose_by_strategy(
    context: RunContext, situation: Situation, judged: Sequence[Attempt]
) -> Choice:
    """Return the strategy's choice of the incumbent after this round. Raises UsageError."""
    with strategy_guard(context, "choose", situation.round):
        choice: Choice = checked_answer(
            context.strategy.choose(situation, judged), (Choice,), MOST_SOURCE
        )
        passed = {one.id for one in situation.attempts if one.passed}
        if choice.incumbent is not None and choice.incumbent not in passed:
            raise UsageError(f"it chose {choice.incumbent}, which has not passed")
        return choice


def stop_by_strategy(context: RunContext, situation: Situation) -> str:
    """Return the reason why the search should end now; empty to continue. Raises UsageError."""
    with strategy_guard(context, "stop", situation.round):
        reason = context.strategy.stop(situation)
        if not isinstance(reason, str):
            raise UsageError(f"it answered {reason!r}; expected a reason, or '' to go on")
        return reason


@contextmanager
def strategy_guard(context: RunContext, step: str, round_: int) -> Iterator[None]:
    """Turn any exception into a UsageError that names the strategy's step."""
    try:
        yield
    except (Exception, SystemExit) as error:
        msg = f"strategy {context.strategy.name}: {step} failed in round {round_}"
        raise UsageError(f"{msg}: {describe_error(error)}; fix it and resume the run") from error


def compose_by_strategy(
    context: RunContext, situation: Situation, unfit: Container[str]
) -> tuple[Trial, ...]:
    """Return the two kernels that the strategy puts together; record why they do not fit together.

    None where it composes nothing. A kernel of `unfit` is no part of one.
    """
    if not isinstance(context.strategy, Composer):
        return ()
    fit = tuple(one for one in situation.attempts if one.id not in unfit)
    with strategy_guard(context, "compose", situation.round):
        made = context.strategy.compose(replace(situation, attempts=fit))
        if isinstance(made, CompositionRefused):
            why = describe_refusal(made)
            context.record(
                AgentDecided(agent=context.strategy.name, round=situation.round, decisions=(why,))
            )
            return ()
        return () if made is None else (checked_answer(made, (Trial,), MOST_SOURCE),)
