"""Opens a chat model behind an OpenAI-compatible endpoint, asks it and reads its answers.

What is asked is what is sent: every option travels in `extra_body`, because langchain drops or
renames fields by the model's name even where the endpoint is not OpenAI's. Retries are off in the
client; `retry.py` is the one layer that repeats a request. Reasoning and streamed refusals, which
langchain-openai drops, are kept: the two methods overridden for that are private, and
`tests/agents/llm/test_chat_model.py` fails when they change.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cuda_llm.agents.llm.kept_body import client_library, keeping_client
from cuda_llm.agents.llm.pricing import OPENAI, Price, count_prompt_tokens
from cuda_llm.agents.llm.retry import Failure, TryFailed
from cuda_llm.agents.prompting.token_budget import count_tokens
from cuda_llm.conversation import Call, Message, Reply, Usage
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.settings import setting_source, settings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_openai import ChatOpenAI


REASONING = "reasoning_content"
"""Key of the reasoning among a message's `additional_kwargs`, whatever the server calls it."""

NO_KEY = "none"
"""Sent to endpoints of one's own, which mostly want no key; those that do answer 401."""
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables that name the certificates to trust."""
CONNECT_S = 10.0
"""Longest an endpoint may take to accept a connection."""
JSON_MODE = {"response_format": {"type": "json_object"}}
_FINISH = {"max_tokens": "length", "end_turn": "stop", "stop_sequence": "stop"}
"""Words of other providers in OpenAI's."""
MOST_TOKENS = 10**9
"""No request has used as many."""


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
                _add_dropped_fields(generation.message, choice["message"])
            return result

        def _convert_chunk_to_generation_chunk(
            self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: Any
        ) -> ChatGenerationChunk | None:
            made = super()._convert_chunk_to_generation_chunk(
                chunk, default_chunk_class, base_generation_info
            )
            if made is not None and chunk.get("choices"):
                _add_dropped_fields(made.message, chunk["choices"][0].get("delta") or {})
            return made

    return ReasoningChatOpenAI


def _add_dropped_fields(message: "BaseMessage", sent: Mapping[str, Any]) -> None:
    """Add the reasoning and the refusal that were sent, which langchain-openai drops."""
    reasoning = sent.get("reasoning_content") or sent.get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        message.additional_kwargs[REASONING] = reasoning
    if sent.get("refusal"):
        message.additional_kwargs["refusal"] = sent["refusal"]


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """The fields of each request beside model and messages."""

    try_s: float = 300.0
    """Longest the endpoint may stay silent."""
    output_tokens: int = 16384
    """Longest answer in tokens, reasoning included; 0 leaves the limit to the server."""
    stream: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further fields, sent as they are."""


def options_from_settings() -> RequestOptions:
    """Return the options of this machine. Raises UsageError on a bad setting."""
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
    return keeping_client()(limits=limits, follow_redirects=False, verify=_tls_context())


def _tls_context() -> ssl.SSLContext:
    """Return the TLS context of every client of this process.

    Reading the certificates takes 30 ms of processor time, and a run opens several clients. Raises
    UsageError where a variable names certificates that cannot be read.
    """
    places = {name: place for name in CERTIFICATES if (place := os.environ.get(name))}
    try:
        return _read_certificates(*places.items())
    except OSError as error:
        named = " or ".join(f"{name}={place}" for name, place in places.items())
        why = f"no certificates could be read: {error.strerror or error}"
        raise UsageError(f"{named or 'TLS'}: {why}; expected a PEM file, or unset it") from None


@cache
def _read_certificates(*_places: tuple[str, str]) -> ssl.SSLContext:
    """Return the context that the client's library makes where the environment names `_places`."""
    context: ssl.SSLContext = client_library().create_ssl_context()
    return context


def find_endpoint(base_url: str = "") -> str:
    """Return the address given, or from the settings, from the environment, or OpenAI's.

    Raises UsageError where it is no http address.
    """
    own = settings().base_url
    named = base_url or own or os.environ.get("OPENAI_BASE_URL", "")
    address = named or f"https://{OPENAI}/v1"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        by_setting = setting_source("base_url") if own else "OPENAI_BASE_URL"
        source = "--base-url" if base_url else by_setting
        raise UsageError(f"{source} {address!r}: expected one like http://localhost:8000/v1")
    return address


def show_endpoint(address: str) -> str:
    """Return the address without a user name and a password."""
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


async def ask_model(model: "BaseChatModel", call: Call, *, json_mode: bool) -> "AIMessage":
    """Send one request. Raises whatever the client raises.

    JSON mode travels in `extra_body` like every option: langchain would turn `response_format`
    into a parser that raises when an answer is cut at its length.
    """
    options: dict[str, Any] = {}
    if json_mode:
        options["extra_body"] = {**(getattr(model, "extra_body", None) or {}), **JSON_MODE}
    return await model.ainvoke([(one.role, one.text) for one in call.messages], **options)


def takes_json_mode(model: "BaseChatModel") -> bool:
    """Return whether the client can say `response_format`; other providers' are asked plainly."""
    from langchain_openai.chat_models.base import BaseChatOpenAI

    return isinstance(model, BaseChatOpenAI)


def read_answer(
    model: "BaseChatModel", message: "AIMessage", call: Call, price: Price | None
) -> Reply:
    """Read the reply in a message. Raises TryFailed where the server sent no finish reason."""
    about = message.response_metadata
    finish = about.get("finish_reason") or about.get("stop_reason")
    if not finish and takes_json_mode(model):
        raise TryFailed(Failure(kind="cut_off", detail="the answer ended without finish_reason"))
    text = str(message.text)
    reasoning = str(message.additional_kwargs.get(REASONING) or "")
    return Reply(
        text=text,
        reasoning=reasoning,
        finish=_FINISH.get(str(finish), str(finish or "stop")),
        refusal=str(message.additional_kwargs.get("refusal") or ""),
        model=str(about.get("model_name") or ""),
        usage=read_usage(message, call.messages, text + reasoning, price),
    )


def read_usage(
    message: "AIMessage", messages: Sequence[Message], answer: str, price: Price | None
) -> Usage:
    """Return the server's own count; where it sent none, an estimate that says so.

    `answer` is the text and the reasoning that came back.
    """
    raw = message.response_metadata.get("token_usage") or {}
    found = message.usage_metadata
    if found is None or not _is_count(found["input_tokens"], found["output_tokens"]):
        counts = Usage(
            input_tokens=count_prompt_tokens(messages),
            output_tokens=count_tokens(answer),
            estimated=True,
        )
    else:
        counts = Usage(
            input_tokens=int(found["input_tokens"]),
            output_tokens=int(found["output_tokens"]),
            cached_tokens=_cached(found, raw),
            reasoning_tokens=_detail(found, "output_token_details", "reasoning"),
        )
    return _price_usage(counts, price)


def _is_count(*tokens: object) -> bool:
    """Return whether a server has counted: negative or absurd numbers say nothing."""
    whole = [one for one in tokens if isinstance(one, (int, float)) and 0 <= one <= MOST_TOKENS]
    return len(whole) == len(tokens) and any(whole)


def _price_usage(usage: Usage, price: Price | None) -> Usage:
    """Return the same tokens with what they cost."""
    if price is None:
        return replace(usage, usd=None)
    usd = price.usd(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
    )
    return replace(usage, usd=usd)


def _cached(found: Mapping[str, Any], raw: Mapping[str, Any]) -> int:
    """Return the cached tokens; DeepSeek's own name for them is one langchain does not map."""
    cached = _detail(found, "input_token_details", "cache_read")
    cached = cached or int(raw.get("prompt_cache_hit_tokens") or 0)
    return min(max(cached, 0), int(found["input_tokens"]))


def _detail(found: Mapping[str, Any], group: str, name: str) -> int:
    return max(int((found.get(group) or {}).get(name) or 0), 0)
