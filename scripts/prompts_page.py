"""Write the generated parts of docs/prompts.md: `python scripts/prompts_page.py [--check]`.

The example is real: a kernel of `examples/kernels`, and the same with an invented intrinsic, are
judged on the emulated device, the researcher and the reflection describe them, and the prompt to
improve the first is rendered.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from cuda_llm.agents.prompting.quote import fence
from cuda_llm.agents.prompting.render import PROMPT_TOKENS, render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.prompting.token_budget import SECTIONS, count_tokens
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.researcher.research import hardware_research
from cuda_llm.agents.situation import Plan, Situation
from cuda_llm.agents.techniques.directions import directions
from cuda_llm.conversation import Message
from cuda_llm.graph.attempts import profile_fields
from cuda_llm.outcomes import Verdict
from cuda_llm.search import Attempt, Brief, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.judge.device_bench import open_bench
from cuda_llm.tools.judge.judge import judge
from cuda_llm.tools.judge.steps import time_baseline
from cuda_llm.tools.open_device import open_device

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "prompts.md"
KERNEL = ROOT / "examples" / "kernels" / "transpose_unpadded.cu"


class MemoryArchive:
    """Sources and verdicts of the kernels, which a run has in its folder."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self.verdicts: dict[str, Verdict] = {}

    def source(self, attempt: str) -> str:
        return self.sources[attempt]

    def verdict(self, attempt: str) -> Verdict:
        return self.verdicts[attempt]


async def search() -> tuple[Situation, Brief]:
    """Judge a round of two kernels; return the situation and a brief to improve the better one."""
    task, device, archive = load_task("matrix_transpose"), open_device("emulated"), MemoryArchive()
    baseline = asyncio.ensure_future(time_baseline(task, device))
    timing = await baseline
    situation = Situation(
        task=task,
        hardware=device.hardware,
        device=device.name,
        capabilities=device.capabilities,
        plan=Plan(),
        round=1,
        sizes=tuple(dims for dims, _ in timing.times),
        baseline_us=tuple(time_us for _, time_us in timing.times),
        archive=archive,
    )
    good = KERNEL.read_text()
    sources = (good, good.replace("__syncthreads", "__syncblock"))
    chosen = directions(situation, Kind.FIRST, len(sources))
    attempts = []
    for index, source in enumerate(sources, 1):
        judged = await judge(open_bench(task, device), source, "solve.cu", baseline=baseline)
        archive.sources[f"r1-c{index}"] = source
        archive.verdicts[f"r1-c{index}"] = judged.verdict
        idea = source.partition("\n")[0].removeprefix("// ")
        attempts.append(attempt(index, judged.verdict, chosen[index - 1], idea))
    note = (await hardware_research(situation)).note
    assert note is not None
    situation = replace(
        situation,
        attempts=tuple(attempts),
        incumbent=attempts[0],
        notes={"hardware_research": note},
    )
    learned = await Reflection(None).reflect(situation, attempts)
    return situation, Brief(
        id="r2-c1",
        round=2,
        index=1,
        kind=Kind.IMPROVE,
        parent="r1-c1",
        direction=directions(situation, Kind.IMPROVE, 1)[0],
        history=("r1-c1", "r1-c2"),
        error_hints=learned.error_hints,
        performance_hints=learned.performance_hints,
    )


def attempt(index: int, verdict: Verdict, direction: str, idea: str) -> Attempt:
    """Return the attempt that a run records of a kernel."""
    return Attempt(
        id=f"r1-c{index}",
        round=1,
        index=index,
        kind=Kind.FIRST,
        direction=direction,
        written_by="human",
        idea=idea,
        code=verdict.code,
        **profile_fields(verdict),
    )


def section_table() -> str:
    """Return the sections of a prompt as a table."""
    rows = ["| section | priority | at least | at most | shortened |", "|---|---|---|---|---|"]
    words = {
        "whole": "never",
        "lines": "from its middle, with how many lines are missing",
        "entries": "its least important entries first, with how many are missing",
    }
    for one in SECTIONS:
        shares = (f"{one.least:.0%}", f"{one.most:.0%}") if one.priority else ("all", "all")
        rows.append(
            f"| `{one.name}` | {one.priority or 'always whole'} | {shares[0]} | {shares[1]} "
            f"| {words[one.cut]} |"
        )
    return "\n".join(rows)


def shown(messages: tuple[Message, ...]) -> str:
    """Return both messages, quoted, and how long they are."""
    total = sum(count_tokens(message.text) for message in messages)
    parts = [f"**{message.role}**\n\n{fence(message.text, 'text')}" for message in messages]
    return "\n\n".join([f"{total:,} of {PROMPT_TOKENS:,} tokens, as estimated.", *parts])


def with_parts(page: str, parts: dict[str, str]) -> str:
    """Return `page` with the text between each pair of markers replaced."""
    for name, text in parts.items():
        begin, end = f"<!-- {name}: generated -->", f"<!-- {name}: end -->"
        before, _, rest = page.partition(begin)
        _, _, after = rest.partition(end)
        page = f"{before}{begin}\n{text}\n{end}{after}"
    return page


def main(arguments: list[str]) -> int:
    """Write the page, or with --check compare it with what would be written."""
    situation, brief = asyncio.run(search())
    messages = render_prompt(brief, situation, open_templates())
    old = PAGE.read_text()
    new = with_parts(old, {"sections": section_table(), "prompt": shown(messages)})
    if "--check" in arguments:
        if old != new:
            print("docs/prompts.md is not up to date; run python scripts/prompts_page.py")
        return int(old != new)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
