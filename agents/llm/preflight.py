"""Whether a model can be asked and paid for, found out before a run does any work.

The limits are checked first, for nothing. Then one tiny question is asked, in the very form that
the run will use: a wrong key, a wrong address or an option that the server refuses shows at once.
"""

from dataclasses import replace
from difflib import get_close_matches
from http import HTTPStatus
from typing import TYPE_CHECKING, NoReturn

from cuda_llm.agents.llm.budget import OUTPUT_SETTING, Budget, Round, check_limits
from cuda_llm.agents.llm.chat_model import show_endpoint
from cuda_llm.agents.llm.client import ModelClient
from cuda_llm.agents.llm.pricing import Price
from cuda_llm.agents.llm.retry import RetryPolicy
from cuda_llm.conversation import Call, CallFailed, Message, Reply
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.traces.events import Event, ModelCalled

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

PROBE = "Answer with the one word: ready"


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
    where = show_endpoint(endpoint)
    check_limits(f"{name} at {where}", budget, price, round, output_tokens)
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
        _refuse(answer, name, where, offered)
    return next(event for event in events if isinstance(event, ModelCalled))


def _refuse(failed: CallFailed, name: str, where: str, offered: tuple[str, ...]) -> NoReturn:
    """Raise one line: what is wrong with the model, and the remedy."""
    detail = failed.detail
    match failed.kind:
        case "no_access":
            raise MissingError(
                f"{where} gives no access ({detail})", "check OPENAI_API_KEY and the account"
            )
        case "unreachable" | "timed_out" | "cut_off":
            remedy = "start the server, or name another with --base-url or OPENAI_BASE_URL"
            raise MissingError(f"{where} does not answer ({detail})", remedy)
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
    if failed.kind == "not_json" or failed.status == HTTPStatus.NOT_FOUND:
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

    def write_prompt(self, call: Call) -> None:
        pass

    def load_body(self, call: str) -> bytes | None:
        return None

    def write_body(self, call: str, body: bytes) -> None:
        pass

    def write_reply(self, call: str, reply: Reply) -> None:
        pass
