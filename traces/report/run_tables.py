"""A table of runs as CSV and as LaTeX."""

import csv
import io
from collections.abc import Sequence

from cuda_llm.redaction import printable
from cuda_llm.traces.report.run_lines import RunLine
from cuda_llm.traces.report.selection import COLUMNS

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "·": r"\textperiodcentered{}",
    **{one: f"\\{one}" for one in "&%$#_"},
}
FORMULA = ("=", "+", "-", "@")
"""A spreadsheet takes a cell that begins so for a formula."""
BEST = ("best", "objective")


def csv_table(lines: Sequence[RunLine]) -> str:
    """Return the runs as CSV with a header: names of columns, exact figures, then the best."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*(one.name for one in COLUMNS), *BEST, "planned_rounds", "problem"])
    for line in lines:
        cells = [str(one.exact(line)) if one.exact else _cell(one.text(line)) for one in COLUMNS]
        rest = (line.best or "", line.objective, str(line.planned_rounds), _cell(line.problem))
        writer.writerow([*cells, *rest])
    return text.getvalue()


def _cell(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def latex_table(lines: Sequence[RunLine]) -> str:
    """Return the runs as a plain `tabular`; columns that are empty everywhere are left out."""
    kept = [one for one in COLUMNS if any(one.text(line) for line in lines)] or list(COLUMNS)
    form = "".join("r" if one.is_figure else "l" for one in kept)
    rows = [[one.title for one in kept]] + [[one.text(line) for one in kept] for line in lines]
    body = [" & ".join(escape_latex(cell) for cell in row) + r" \\" for row in rows]
    head = [rf"\begin{{tabular}}{{{form}}}", r"\hline", body[0], r"\hline"]
    return "\n".join([*head, *body[1:], r"\hline", r"\end{tabular}", ""])


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(one, one) for one in printable(text))
