"""A ChatOpenAI that keeps what servers send beside OpenAI's own fields.

langchain-openai drops a model's reasoning (`reasoning_content` of DeepSeek and llama.cpp,
`reasoning` of vLLM and Ollama), and the refusal of a streamed answer. The two methods overridden
here are private; `tests/agents/llm/test_chat_model.py` fails when they change.
"""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage
    from langchain_openai import ChatOpenAI

REASONING = "reasoning_content"
"""Key of the reasoning among a message's `additional_kwargs`, whatever the server calls it."""


@cache
def reasoning_chat_model() -> type["ChatOpenAI"]:
    """The class; made on first use because importing langchain takes a second."""
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
