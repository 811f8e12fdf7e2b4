"""The generator that asks a chat model."""

from dataclasses import replace

from cuda_llm.agents.llm.read_reply import read_reply
from cuda_llm.agents.prompting.render import PROMPT_TOKENS, render_prompt
from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.tunable import Space
from cuda_llm.conversation import Ask, Call, CallFailed
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Author, Brief, Draft


class LlmGenerator:
    """Renders a brief, asks, and reads the reply."""

    name = "llm"
    written_by: Author = "model"

    def __init__(
        self, ask: Ask, templates: Templates, *, prompt_tokens: int = PROMPT_TOKENS
    ) -> None:
        self._ask = ask
        self._templates = templates
        self._prompt_tokens = prompt_tokens

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """One call a brief, kept under `candidates/<id>`; a call without an answer is a NoCode."""
        messages = render_prompt(brief, situation, self._templates, self._prompt_tokens)
        call = Call(id=f"candidates/{brief.id}", agent="generator", messages=messages)
        reply = await self._ask(call)
        if isinstance(reply, CallFailed):
            return NoCode(kind="call_failed", reason=f"{reply.kind}: {reply.detail}")
        drafted = read_reply(reply)
        return drafted if isinstance(drafted, NoCode) else with_tunables(drafted)


def with_tunables(draft: Draft) -> Draft:
    """The draft with the defaults of the tunables it declares."""
    space = read_space(draft.source)
    if not isinstance(space, Space):
        return draft
    return replace(draft, tunables={one.name: one.default for one in space.tunables})
