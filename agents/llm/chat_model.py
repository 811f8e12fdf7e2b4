"""Opens a chat model behind an OpenAI-compatible endpoint.

What is asked is what is sent: every option travels in `extra_body`, because langchain drops or
renames fields by the model's name even where the endpoint is not OpenAI's. Retries are off in the
client; `retry.py` is the one layer that repeats a request.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from cuda_llm.agents.llm.prices import OPENAI
from cuda_llm.errors import MissingError, UsageError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

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
    """The options of this machine. Raises UsageError on a bad setting."""
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
    """The model `name` at an endpoint; nothing is sent yet.

    An empty `base_url` or `key` is what the settings, then OPENAI_BASE_URL and OPENAI_API_KEY say.
    Raises MissingError where OpenAI is asked without a key, UsageError for a bad address.
    """
    import openai
    from pydantic import SecretStr

    from cuda_llm.agents.llm.reasoning import reasoning_chat_model

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
    """The model, or a copy whose client repeats nothing by itself. Knows OpenAI's client only."""
    client = getattr(model, "root_async_client", None)
    if client is None or client.max_retries == 0:
        return model
    calm = client.with_options(max_retries=0, http_client=_open_client())
    update = {"root_async_client": calm, "async_client": calm.chat.completions, "max_retries": 0}
    return model.model_copy(update=update)


def _open_client() -> Any:
    """One connection a request: none is left open, and none outlives its event loop.

    langchain's own client is shared by the whole process; its idle connections break the second of
    two `asyncio.run`. Redirects are not followed: each would be a request that no policy counts,
    and may lead prompts to somebody else.
    """
    import openai

    limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_keepalive_connections=0)
    return openai.DefaultAsyncHttpxClient(limits=limits, follow_redirects=False)


def find_endpoint(base_url: str = "") -> str:
    """The address that is asked: given, from the settings, from the environment, or OpenAI's.

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
    """The address without what may be a password in it."""
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
    """OpenAI has renamed `max_tokens`; most other servers know the old name only."""
    limit = "max_completion_tokens" if urlsplit(address).hostname == OPENAI else "max_tokens"
    own = {limit: options.output_tokens} if options.output_tokens else {}
    return {**own, **options.more}
