"""The chat models of a run: the writer's, the critic's, and those of the user's own agents."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuda_llm.agents.llm.prices import Price
from cuda_llm.graph.runs.parts import Parts, name_of

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


@dataclass(frozen=True, kw_only=True, eq=False)
class Chat:
    """A chat model with endpoint, price and limits. Equal models are the same object."""

    name: str
    model: "BaseChatModel"
    endpoint: str
    price: Price | None
    output_tokens: int
    from_caller: bool
    """It came as an object: it is not tried beforehand, and its price is unknown."""


class Chats:
    """The chat models of a run, each opened once, when it is first asked for.

    Methods raise UsageError for a bad address and MissingError without a key.
    """

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self._opened: dict[tuple[str, int], Chat] = {}

    @property
    def writer(self) -> Chat | None:
        """The model that writes kernels; None where none does."""
        parts = self.parts
        return self._find(parts.model, parts.overrides.model) if parts.model else None

    @property
    def critic(self) -> Chat | None:
        """The model that reflection asks, often the writer's; None where it asks none."""
        parts = self.parts
        if not parts.critic:
            return None
        return self._find(parts.critic, parts.overrides.reflection_model)

    def of_agent(self, agent: str) -> Chat | None:
        """The model of an agent, generator or reflector of the user's; None where none is named."""
        parts = self.parts
        brought = parts.overrides.agent_models.get(agent)
        if brought is not None:
            return self._find(name_of(brought), brought)
        named = parts.request.agent_models.get(agent)
        if named:
            return self._find(named, None)
        return self._find(parts.named, parts.overrides.model) if parts.named else None

    def named_for_agents(self) -> tuple[Chat, ...]:
        """The models that agents have of their own by name."""
        own = self.parts.overrides.agent_models
        names = (one for one in self.parts.request.agent_models if one not in own)
        found = (self.of_agent(name) for name in names)
        return tuple(dict.fromkeys(one for one in found if one is not None))

    def _find(self, name: str, brought: "BaseChatModel | None") -> Chat:
        writer = self.parts.overrides.model
        if brought is None and writer is not None and name == self.parts.model:
            brought = writer
        key = (name, id(brought))
        if key not in self._opened:
            self._opened[key] = open_chat(self.parts, name, brought)
        return self._opened[key]


def open_chat(parts: Parts, name: str, brought: "BaseChatModel | None") -> Chat:
    """Open a model. Raises UsageError for a bad address, MissingError without a key."""
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
        from_caller=not is_ours,
    )
