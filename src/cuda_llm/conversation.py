"""One question to a chat model and its answer, as values."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, kw_only=True)
class Call:
    """A question. Asked once: a reply that reached the disk is never asked for again."""

    id: str
    """Where prompt and reply are kept, as a folder below the run's: `candidates/r1-c2`,
    `rounds/2/critique`, `rounds/2/lessons/ask-9f86d081`."""
    agent: str
    """Who asks: `generator`, `reflection`, or the name of an agent of the user's."""
    messages: tuple[Message, ...]
    as_json: bool = False
    """The answer should be one JSON object; servers that cannot promise that are asked plainly."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What a call cost."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    """Part of `input_tokens`."""
    reasoning_tokens: int = 0
    """Part of `output_tokens`."""
    usd: float | None = None
    """None where the price is unknown."""
    estimated: bool = False
    """The server sent no count: the tokens are counted from the texts, rather too many."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a model answered."""

    text: str
    reasoning: str = ""
    finish: str = "stop"
    """The server's word: `stop`, `length`, `content_filter` ..."""
    refusal: str = ""
    """What the model said instead of an answer, where the server tells it apart."""
    model: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    tries: int = 1


@dataclass(frozen=True, kw_only=True)
class CallFailed:
    """No answer, after all tries."""

    kind: str
    """`rate_limited`, `server_error`, `unreachable`, `timed_out`, `cut_off`, `not_json` (a 200 that
    holds no chat completion), `refused_request`, `too_long` (for the model's context),
    `unknown_model`, `no_access` (key or balance), `over_budget`, `no_model` (none is named)."""
    detail: str
    status: int = 0
    """Of the last HTTP answer; 0 where there was none."""
    tries: int = 1
    seconds: float = 0.0


class Ask(Protocol):
    """Asks a chat model."""

    async def __call__(self, call: Call) -> Reply | CallFailed:
        """The answer: from the disk where it is there, else from the model."""
        ...


class AskModel(Protocol):
    """What an agent, generator or reflector of the user's asks its model with."""

    async def __call__(
        self, prompt: str | Sequence[Message], *, system: str = "", as_json: bool = False
    ) -> Reply | CallFailed:
        """The answer to `prompt`, a text or a whole conversation; `system` goes before it.

        Retried, counted and recorded by the run. Whatever goes wrong with the model or its endpoint
        is a CallFailed. The same question is answered from the disk once its reply is there, in a
        resumed run too; `as_json` asks for one JSON object, where the server can promise that.
        """
        ...


async def no_model(
    prompt: str | Sequence[Message], *, system: str = "", as_json: bool = False
) -> CallFailed:
    """Answer for whoever has no model to ask; an `AskModel`."""
    return CallFailed(kind="no_model", detail="nobody asks a model here", tries=0)


class CallStore(Protocol):
    """Where prompts and replies are kept; a run's folder is one."""

    def load_reply(self, call: str) -> Reply | None:
        """Return the reply kept earlier, or None."""
        ...

    def write_prompt(self, call: Call) -> None:
        """Keep what is about to be asked, for a person to read."""
        ...

    def write_body(self, call: str, body: bytes) -> None:
        """Keep what a server answered, as it came: its reply is still to be read."""
        ...

    def load_body(self, call: str) -> bytes | None:
        """Return the answer kept as it came, where a process ended before it was read."""
        ...

    def write_reply(self, call: str, reply: Reply) -> None:
        """Keep an answer, whole or not at all; from then on it is never asked for again."""
        ...
