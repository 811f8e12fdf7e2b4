"""The generator: one call a brief, and an outcome for whatever comes back."""

import asyncio

from searches import situation

from cuda_llm.agents.llm.generator import LlmGenerator
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.protocols import Generator
from cuda_llm.conversation import Call, CallFailed, Reply
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Brief, Draft, Kind
from cuda_llm.verdict_wording import describe

BRIEF = Brief(id="r1-c2", round=1, index=2, kind=Kind.FIRST, direction="tiles in shared memory")
KERNEL = """\
```cuda
// tiles
#define TILE 16 // tunable: 8 16 32
extern "C" void solve(const float* input, float* output, int rows, int cols) {}
```
"""


def generated(answer: Reply | CallFailed) -> tuple[Draft | NoCode, list[Call]]:
    calls: list[Call] = []

    async def ask(call: Call) -> Reply | CallFailed:
        calls.append(call)
        return answer

    generator: Generator = LlmGenerator(ask, open_templates())
    assert (generator.name, generator.written_by) == ("llm", "model")
    return asyncio.run(generator.generate(BRIEF, situation())), calls


def test_a_reply_with_a_kernel_is_a_draft_with_its_tunables() -> None:
    drafted, calls = generated(Reply(text=KERNEL))
    assert isinstance(drafted, Draft)
    assert drafted.idea == "tiles"
    assert drafted.tunables == {"TILE": 16}
    assert [call.id for call in calls] == ["candidates/r1-c2"]
    assert calls[0].agent == "generator"
    assert [message.role for message in calls[0].messages] == ["system", "user"]
    assert "tiles in shared memory" in calls[0].messages[1].text


def test_a_reply_without_one_is_its_named_outcome() -> None:
    drafted, _ = generated(Reply(text="", refusal="no"))
    assert isinstance(drafted, NoCode)
    assert drafted.kind == "refused"


def test_a_call_without_an_answer_says_why() -> None:
    drafted, _ = generated(CallFailed(kind="rate_limited", detail="3 times 429", tries=3))
    assert drafted == NoCode(kind="call_failed", call_fault="rate_limited", said="3 times 429")
    assert describe(drafted) == ("rate_limited: 3 times 429",)
