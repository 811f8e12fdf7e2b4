"""One request to a LangChain chat model, and the reply in its message."""

from typing import TYPE_CHECKING, Any

from cuda_llm.agents.llm.classify import Failure
from cuda_llm.agents.llm.prices import Price
from cuda_llm.agents.llm.reasoning import REASONING
from cuda_llm.agents.llm.retry import TryFailed
from cuda_llm.agents.llm.usage import read_usage
from cuda_llm.conversation import Call, Reply

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

JSON_MODE = {"response_format": {"type": "json_object"}}

_FINISH = {"max_tokens": "length", "end_turn": "stop", "stop_sequence": "stop"}
"""Words of other providers in OpenAI's."""


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
    """Whether the client can say `response_format`; other providers' are asked plainly."""
    from langchain_openai.chat_models.base import BaseChatOpenAI

    return isinstance(model, BaseChatOpenAI)


def read_answer(
    model: "BaseChatModel", message: "AIMessage", call: Call, price: Price | None
) -> Reply:
    """The reply in a message. Raises TryFailed where the server sent no finish reason."""
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
