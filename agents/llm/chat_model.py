"""Opens a chat model behind an OpenAI-compatible endpoint, and keeps its key secret.

What is asked is what is sent: every option travels in `extra_body`, because langchain drops or
renames fields by the model's name even where the endpoint is not OpenAI's. Retries are off in the
client; `retry.py` is the one layer that repeats a request. Reasoning and streamed refusals, which
langchain-openai drops, are kept: the two methods overridden for that are private, and
`tests/agents/llm/test_chat_model.py` fails when they change.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cuda_llm.agents.llm.pricing import OPENAI
from cuda_llm.conversation import Reply
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.redaction import HIDDEN, LEAST

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_openai import ChatOpenAI


def secrets_of(model: "BaseChatModel") -> tuple[str, ...]:
    """Return what a client keeps secret: fields of pydantic's SecretStr."""
    fields = getattr(model, "__dict__", {}).values()
    found = (one.get_secret_value() for one in fields if hasattr(one, "get_secret_value"))
    return tuple(one for one in found if isinstance(one, str) and len(one) >= LEAST)


def remove_secrets(secrets: Iterable[str], text: str) -> str:
    """Return the text with each secret replaced."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def remove_reply_secrets(secrets: Iterable[str], reply: Reply) -> Reply:
    """Return the reply with each secret replaced."""
    hidden = tuple(secrets)
    return replace(
        reply,
        text=remove_secrets(hidden, reply.text),
        reasoning=remove_secrets(hidden, reply.reasoning),
        refusal=remove_secrets(hidden, reply.refusal),
        finish=remove_secrets(hidden, reply.finish),
        model=remove_secrets(hidden, reply.model),
    )


REASONING = "reasoning_content"
"""Key of the reasoning among a message's `additional_kwargs`, whatever the server calls it."""


@cache
def reasoning_chat_model() -> type["ChatOpenAI"]:
    """Return the class; made on first use because importing langchain takes a second."""
    from langchain_core.outputs import ChatGenerationChunk, ChatResult
    from langchain_openai import ChatOpenAI

    class ReasoningChatOpenAI(ChatOpenAI):
        def _create_chat_result(
            self, response: Any, generation_info: dict[str, Any] | None = None
        ) -> ChatResult:
            result = super()._create_chat_result(response, generation_info)
            whole = response if isinstance(response, dict) else response.model_dump(warnings=False)
            for generation, choice in zip(result.generations, whole["choices"], strict=True):
                _keep(generation.message, choice["message"])
            return result

        def _convert_chunk_to_generation_chunk(
            self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: Any
        ) -> ChatGenerationChunk | None:
            made = super()._convert_chunk_to_generation_chunk(
                chunk, default_chunk_class, base_generation_info
            )
            if made is not None and chunk.get("choices"):
                _keep(made.message, chunk["choices"][0].get("delta") or {})
            return made

    return ReasoningChatOpenAI


def _keep(message: "BaseMessage", sent: Mapping[str, Any]) -> None:
    reasoning = sent.get("reasoning_content") or sent.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        message.additional_kwargs[REASONING] = reasoning
    if sent.get("refusal"):
        message.additional_kwargs["refusal"] = sent["refusal"]


NO_KEY = "none"
"""Sent to endpoints of one's own, which mostly want no key; those that do answer 401."""

CONNECT_S = 10.0
"""Longest an endpoint may take to accept a connection."""


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """What each request says beside model and messages."""

    try_s: float = 300.0
    """Longest the endpoint may stay silent."""
    output_tokens: int = 16384
    """Longest answer, reasoning included; 0 leaves it to the server."""
    stream: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields, sent as they are."""


def options_from_settings() -> RequestOptions:
    """Return the options of this machine. Raises UsageError on a bad setting."""
    from cuda_llm.settings import settings

    now = settings()
    return RequestOptions(
        try_s=now.model_try_s,
        output_tokens=now.model_output_tokens,
        stream=now.model_stream,
        more=now.model_request,
    )


def open_chat_model(
    name: str, *, base_url: str = "", key: str = "", options: RequestOptions | None = None
) -> "BaseChatModel":
    """Open the model `name` at an endpoint; nothing is sent yet.

    An empty `base_url` or `key` is what the settings, then OPENAI_BASE_URL and OPENAI_API_KEY say.
    Raises MissingError where OpenAI is asked without a key, UsageError for a bad address.
    """
    import openai
    from pydantic import SecretStr

    options = options or options_from_settings()
    address = find_endpoint(base_url)
    return reasoning_chat_model()(
        model=name,
        base_url=address,
        api_key=SecretStr(_find_key(address, key)),
        max_retries=0,
        http_async_client=_open_client(),
        timeout=openai.Timeout(options.try_s, connect=min(CONNECT_S, options.try_s)),
        streaming=options.stream,
        stream_usage=True,
        use_responses_api=False,
        extra_body=_body(address, options),
    )


def without_retries(model: "BaseChatModel") -> "BaseChatModel":
    """Return the model, or a copy that repeats nothing by itself. Knows OpenAI's client only."""
    client = getattr(model, "root_async_client", None)
    if client is None or client.max_retries == 0:
        return model
    calm = client.with_options(max_retries=0, http_client=_open_client())
    update = {"root_async_client": calm, "async_client": calm.chat.completions, "max_retries": 0}
    return model.model_copy(update=update)


def _open_client() -> Any:
    """Open a client with one connection a request: none outlives its event loop.

    langchain's own client is shared by the whole process; its idle connections break the second of
    two `asyncio.run`. Redirects are not followed: each would be a request that no policy counts,
    and may lead prompts to somebody else.
    """
    import openai

    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_keepalive_connections=0)
    return openai.DefaultAsyncHttpxClient(limits=limits, follow_redirects=False)


def find_endpoint(base_url: str = "") -> str:
    """Return the address given, or from the settings, from the environment, or OpenAI's.

    Raises UsageError where it is no http address.
    """
    from cuda_llm.settings import settings

    named = base_url or settings().base_url or os.environ.get("OPENAI_BASE_URL", "")
    address = named or f"https://{OPENAI}/v1"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"base URL {address!r}: expected one like http://localhost:8000/v1")
    return address


def show_endpoint(address: str) -> str:
    """Return the address without what may be a password in it."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


def _find_key(address: str, key: str) -> str:
    found = key or os.environ.get("OPENAI_API_KEY", "")
    if not found and urlsplit(address).hostname == OPENAI:
        raise MissingError(
            "no key for OpenAI",
            "set OPENAI_API_KEY, or name another endpoint with --base-url or OPENAI_BASE_URL",
        )
    return found or NO_KEY


def _body(address: str, options: RequestOptions) -> dict[str, Any]:
    """Return the token limit as the server names it: most do not know OpenAI's new name."""
    limit = "max_completion_tokens" if urlsplit(address).hostname == OPENAI else "max_tokens"
    own = {limit: options.output_tokens} if options.output_tokens else {}
    return {**own, **options.more}
