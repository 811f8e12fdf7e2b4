"""Write the generated parts of docs/prompts.md:

    PYTHONPATH=tests/support python scripts/prompts_page.py [--check]

The example and the counts are of recorded runs on the emulated device: the hardware is researched
and the prompts are rendered anew.
"""

import sys
from pathlib import Path
from statistics import fmean

from prompt_tokens import measure
from recorded_situations import recorded_rounds

from cuda_llm.agents.prompting.quote import fence
from cuda_llm.agents.prompting.render import PROMPT_TOKENS, render_prompt
from cuda_llm.agents.prompting.templates import open_templates
from cuda_llm.agents.prompting.token_budget import SECTIONS, count_tokens
from cuda_llm.agents.strategies.builtin import Fsr
from cuda_llm.conversation import Message

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "prompts.md"


def token_table() -> str:
    """Return the mean tokens of each section over all recorded situations."""
    counted = measure()
    names = next(iter(counted.values()))
    rows = [f"| `{name}` | {fmean(one[name] for one in counted.values()):,.0f} |" for name in names]
    return "\n".join(["| section | tokens |", "|---|---|", *rows])


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
    situation = recorded_rounds("matrix_multiplication")[-1]
    brief = Fsr().write_briefs(situation)[1]
    messages = render_prompt(brief, situation, open_templates())
    old = PAGE.read_text()
    new = with_parts(
        old, {"sections": section_table(), "tokens": token_table(), "prompt": shown(messages)}
    )
    if "--check" in arguments:
        if old != new:
            print("docs/prompts.md is not up to date; run scripts/prompts_page.py")
        return int(old != new)
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
