"""The chat models of a run: the writer's and, where it is another, the critic's."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda_llm.agents.llm.prices import Price
from cuda_llm.graph.runs.parts import Parts

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Chat:
    """One model and what is known of it; the same one is the same object."""

    name: str
    model: "BaseChatModel"
    endpoint: str
    price: Price | None
    output_tokens: int
    brought: bool
    """It came as an object: it is not tried beforehand, and its price is unknown."""


def find_writer(parts: Parts) -> Chat | None:
    """The model that writes kernels; None where none does."""
    return find_chat(parts, parts.model, parts.overrides.model) if parts.model else None


def find_critic(parts: Parts, writer: Chat | None) -> Chat | None:
    """The model that reflection asks, often the writer's; None where it asks none."""
    if not parts.critic:
        return None
    if parts.overrides.reflection_model is None and parts.critic == parts.model:
        return writer
    return find_chat(parts, parts.critic, parts.overrides.reflection_model)


def find_chat(parts: Parts, name: str, brought: "BaseChatModel | None") -> Chat:
    """One model. Raises UsageError for a bad address, MissingError without a key."""
    from cuda_llm.agents.llm.chat_model import (
        find_endpoint,
        open_chat_model,
        options_from_settings,
    )
    from cuda_llm.agents.llm.prices import find_price
    from cuda_llm.settings import settings

    options = options_from_settings()
    endpoint = find_endpoint(parts.request.base_url)
    is_ours = brought is None
    return Chat(
        name=name,
        model=brought or open_chat_model(name, base_url=endpoint, options=options),
        endpoint=endpoint,
        price=find_price(name, endpoint, settings().prices) if is_ours else None,
        output_tokens=options.output_tokens if is_ours else 0,
        brought=not is_ours,
    )
