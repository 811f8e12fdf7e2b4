"""Keys stay out of everything that is kept or shown, whatever a server echoes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from cuda_llm.conversation import Reply
from cuda_llm.redaction import HIDDEN, LEAST

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


def secrets_of(model: "BaseChatModel") -> tuple[str, ...]:
    """What a client keeps secret: fields of pydantic's SecretStr."""
    fields = getattr(model, "__dict__", {}).values()
    found = (one.get_secret_value() for one in fields if hasattr(one, "get_secret_value"))
    return tuple(one for one in found if isinstance(one, str) and len(one) >= LEAST)


def without(secrets: Iterable[str], text: str) -> str:
    """The text with each secret replaced."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def reply_without(secrets: Iterable[str], reply: Reply) -> Reply:
    """The reply with each secret replaced."""
    hidden = tuple(secrets)
    return replace(
        reply,
        text=without(hidden, reply.text),
        reasoning=without(hidden, reply.reasoning),
        refusal=without(hidden, reply.refusal),
        finish=without(hidden, reply.finish),
        model=without(hidden, reply.model),
    )
