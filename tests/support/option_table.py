"""The table of options in docs/settings.md, from the request itself.

python tests/support/option_table.py       the part of the page between its marks
"""

from dataclasses import fields
from typing import Any

from cuda_llm.components import Components
from cuda_llm.graph.run_options import RunOption, run_options


def option_table() -> str:
    """One row an option, in the order of `cuda-llm run --help`."""
    rows = ["| option | in Python | default | setting | what it decides |", "|---|---|---|---|---|"]
    for one in run_options():
        setting = f"`{one.text.setting}`" if one.text.setting else ""
        cells = (_flags(one), f"`{one.name}`", _default(one), setting, one.text.help)
        rows.append(f"| {' | '.join(cell for cell in cells)} |")
    return "\n".join(rows) + "\n"


def _flags(option: RunOption) -> str:
    if not option.text.on_command_line:
        return ""
    if option.kind is Components:
        names = [one.name.replace("_", "-") for one in fields(Components)]
        return ", ".join(f"`--no-{name}`" for name in names)
    metavar = f" {option.text.metavar}" if option.text.metavar else ""
    return f"`{option.flag}{metavar}`"


def _default(option: RunOption) -> str:
    if option.text.shown:
        return option.text.shown
    shown: Any = "all on" if option.kind is Components else option.default
    return "none" if shown in ("", (), {}, None) else str(shown)


if __name__ == "__main__":
    print(option_table(), end="")
