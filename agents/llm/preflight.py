"""Whether a model can be asked and paid for, found out before a run does any work.

The limits are checked first, for nothing. Then one tiny question is asked, in the very form that
the run will use: a wrong key, a wrong address or an option that the server refuses shows at once.
"""

from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from cuda_llm.agents.llm.budget import Bound, Budget
from cuda_llm.agents.llm.chat_model import show_endpoint
from cuda_llm.agents.llm.client import ASSUMED_OUTPUT_TOKENS, ModelClient
from cuda_llm.agents.llm.pricing import Price
from cuda_llm.agents.llm.retry import RetryPolicy
from cuda_llm.conversation import Call, CallFailed, Message, Reply
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.traces.events import Event, ModelCalled

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PROMPT_TOKENS = 6000
"""A later prompt of a run, with the incumbent, its profile and a history."""

ANSWER_TOKENS = 4000
"""A kernel with a short explanation, or with some reasoning."""

PROBE = "Answer with the one word: ready"

OUTPUT_SETTING = "CUDA_LLM_MODEL_OUTPUT_TOKENS"


@dataclass(frozen=True, kw_only=True)
class Round:
    """What one round asks of a model, as it is estimated."""

    calls: int
    prompt_tokens: int = PROMPT_TOKENS
    answer_tokens: int = ANSWER_TOKENS

    def __str__(self) -> str:
        answers = f"answers of about {self.answer_tokens:,}"
        return f"{self.calls} prompts of about {self.prompt_tokens:,} tokens and {answers}"


async def check_model(
    model: "BaseChatModel",
    name: str,
    *,
    endpoint: str,
    budget: Budget,
    price: Price | None,
    round: Round,
    output_tokens: int = 0,
    policy: RetryPolicy | None = None,
) -> ModelCalled:
    """Return what the probe cost, for the run's record; `budget` counts it already.

    Raises UsageError: a limit too small for one round, a price that is unknown though money is
    limited, an unknown model, an address that is no such endpoint. Raises MissingError: no access,
    or nothing that answers.
    """
    check_limits(name, endpoint, budget, price, round, output_tokens)
    events: list[Event] = []
    policy = policy or RetryPolicy()
    client = ModelClient(
        model=model,
        name=name,
        store=_NoStore(),
        record=events.append,
        budget=budget,
        policy=replace(policy, tries=min(policy.tries, 2)),
        price=price,
        output_tokens=output_tokens,
    )
    messages = (Message(role="user", text=PROBE),)
    answer = await client(Call(id="preflight", agent="preflight", messages=messages))
    if isinstance(answer, CallFailed):
        offered = await _list_models(model) if answer.kind == "unknown_model" else ()
        _refuse(answer, name, show_endpoint(endpoint), offered)
    return next(event for event in events if isinstance(event, ModelCalled))


def check_limits(
    name: str,
    endpoint: str,
    budget: Budget,
    price: Price | None,
    round: Round,
    output_tokens: int = 0,
) -> None:
    """Check that what is left allows one round. Raises UsageError saying what one may take."""
    if budget.usd is not None and price is None:
        raise UsageError(
            f"--budget-usd: the price of {name} at {show_endpoint(endpoint)} is unknown; "
            "name your price table with CUDA_LLM_PRICES, or limit --max-tokens instead"
        )
    longest = output_tokens or ASSUMED_OUTPUT_TOKENS
    one = _bound(round.prompt_tokens, longest, price)
    whole = _bound(
        round.calls * round.prompt_tokens, round.calls * min(round.answer_tokens, longest), price
    )
    for bound, what, mend in (
        (whole, f"one round takes {{}}: {round}", "raise it, or ask for fewer --candidates"),
        (
            one,
            f"one request may take {{}}: {round.prompt_tokens:,} in, {longest:,} out",
            f"raise it, or lower {OUTPUT_SETTING}",
        ),
    ):
        _check_bound(bound, budget, what, mend)


def _check_bound(bound: Bound, budget: Budget, what: str, mend: str) -> None:
    spent = budget.spent
    if budget.tokens is not None and spent.tokens + bound.tokens > budget.tokens:
        left = f"--max-tokens {budget.tokens:,}" + _spent(f"{spent.tokens:,}", spent.tokens)
        raise UsageError(f"{left} is too small: {what.format(f'{bound.tokens:,} tokens')}; {mend}")
    if budget.usd is not None and spent.most_usd + (bound.usd or 0.0) > budget.usd:
        left = f"--budget-usd {budget.usd:g}" + _spent(f"${spent.most_usd:.4f}", spent.most_usd)
        raise UsageError(f"{left} is too small: {what.format(f'${bound.usd:.4f}')}; {mend}")


def _spent(shown: str, amount: float) -> str:
    return f" ({shown} of it used)" if amount else ""


def _bound(asked: int, answered: int, price: Price | None) -> Bound:
    usd = None if price is None else price.usd(input_tokens=asked, output_tokens=answered)
    return Bound(tokens=asked + answered, usd=usd)


def _refuse(failed: CallFailed, name: str, where: str, offered: tuple[str, ...]) -> NoReturn:
    """Raise one line: what is wrong with the model, and the mend."""
    detail = failed.detail
    match failed.kind:
        case "no_access":
            raise MissingError(
                f"{where} gives no access ({detail})", "check OPENAI_API_KEY and the account"
            )
        case "unreachable" | "timed_out" | "cut_off":
            mend = "start the server, or name another with --base-url or OPENAI_BASE_URL"
            raise MissingError(f"{where} does not answer ({detail})", mend)
        case "rate_limited" | "server_error":
            raise MissingError(f"{where} cannot answer now ({detail})", "try again later")
        case "unknown_model":
            close = get_close_matches(name, offered, n=3, cutoff=0.4) or list(offered[:3])
            has = f"it has {', '.join(close)}" if close else "see the server's own list"
            raise UsageError(f"{where} has no model {name!r} ({detail}); {has}")
        case "over_budget":
            raise UsageError(f"no room for a first question: {detail}")
    if "max_tokens" in detail or "max_completion_tokens" in detail or failed.kind == "too_long":
        raise UsageError(f"{where} refuses answers that long ({detail}); lower {OUTPUT_SETTING}")
    hint = "" if where.rstrip("/").endswith("/v1") else "; most addresses end in /v1"
    if failed.kind == "not_json" or detail.startswith("HTTP 404"):
        raise UsageError(f"{where} is no OpenAI-compatible endpoint ({detail}){hint}")
    raise UsageError(f"{where} refuses a first question to {name} ({detail})")


async def _list_models(model: "BaseChatModel") -> tuple[str, ...]:
    """Return names that the endpoint offers; empty where it does not say."""
    client = getattr(model, "root_async_client", None)
    if client is None:
        return ()
    try:
        return tuple([one.id async for one in client.models.list()])
    except Exception:
        return ()


class _NoStore:
    """A probe is asked every time."""

    def load_reply(self, call: str) -> Reply | None:
        return None

    def keep_prompt(self, call: Call) -> None:
        pass

    def keep_reply(self, call: str, reply: Reply) -> None:
        pass
