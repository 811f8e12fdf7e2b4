"""What differs between two candidates, with the channel of the state behind each section."""

import re
from pathlib import Path

from recorded_run import beginning, ending, write_run

from cuda_llm.agents.prompting.templates import CHANNELS, open_templates
from cuda_llm.cli.printing import join
from cuda_llm.conversation import Call, Message
from cuda_llm.traces.terminal.difference import find_difference
from cuda_llm.traces.terminal.difference_text import describe_difference
from cuda_llm.traces.terminal.prompt_sections import split_prompt

ROOT = Path(__file__).parents[3]
PROMPT = """# Task: Transpose

Transpose it.

## How it is called

```cuda
# not a heading
```

# The kernel to beat, r1-c1

It takes 8 us.

# Hints

- {hint}

# Your turn

Make it faster.
"""


def write_prompts(path: Path) -> tuple[str, ...]:
    """Two candidates that were told other hints; the lines of their difference."""
    run = write_run(path, *beginning(), *ending())
    for name, hint in (("r1-c1", "fewer bytes"), ("r2-c1", "fewer instructions")):
        messages = (
            Message(role="system", text="You write CUDA."),
            Message(role="user", text=PROMPT.format(hint=hint).replace("r1-c1", f"{name}0")),
        )
        run.write_prompt(Call(id=f"candidates/{name}", agent="generator", messages=messages))
    found = find_difference(run, "r1-c1", "r2-c1", CHANNELS)
    states = {one.heading: (one.state, one.channels) for one in found.prompts}
    assert states == {
        "system": ("same", ()),
        "Task: Transpose": ("same", ("task",)),
        "How it is called": ("same", ("task",)),
        "The kernel to beat, r2-c10": ("differs", ("attempts",)),
        "Hints": ("differs", ("error_hints", "performance_hints")),
        "Your turn": ("same", ("briefs",)),
    }
    lines = describe_difference(found, run.name)
    return tuple(join(line, None, colours=False) for line in lines)


def test_sections_of_prompts_are_compared_with_their_channels(tmp_path: Path) -> None:
    text = "\n".join(write_prompts(tmp_path / "a-run"))
    assert re.search(r"Hints +differs \+1 -1 +error_hints, performance_hints", text)
    assert "  -- fewer bytes\n  +- fewer instructions" in text
    assert re.search(r"speedup +1\.25x +-> 3\.50x", text)
    assert re.search(r"rows = cols = 512: time +8.00 us -> 2.86 us  2.80x", text)


def test_a_heading_with_another_kernel_is_the_same_section(tmp_path: Path) -> None:
    one = split_prompt(PROMPT, CHANNELS)
    other = split_prompt(PROMPT.replace("r1-c1", "r7-c7"), CHANNELS)
    assert list(one) == list(other)


def test_every_heading_of_our_templates_has_its_channels() -> None:
    headings = [
        match[1]
        for text in open_templates().texts.values()
        for match in re.finditer(r"^#+ (.+)$", text, re.MULTILINE)
        if not match[1].startswith("define") and "tunable" not in match[1]
    ]
    assert len(headings) > 12
    unknown = [one for one in headings if not one.startswith(tuple(CHANNELS))]
    assert unknown == []


def test_every_channel_is_one_of_the_state() -> None:
    page = (ROOT / "docs/state.md").read_text()
    named = {one for some in CHANNELS.values() for one in some} - {"hardware profile"}
    assert all(f"`{one}`" in page for one in named)


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    run = write_run(tmp_path / "a-run", *beginning(), *ending())
    found = find_difference(run, "r1-c2", "r2-c1", CHANNELS)
    assert found.missing == (
        "r1-c2 has no source",
        "r1-c2 has no prompt: no model was asked",
        "r2-c1 has no prompt: no model was asked",
    )
    assert found.prompts == ()
