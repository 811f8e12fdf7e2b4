"""A benchmark's page as Markdown and HTML, and its rows as CSV and JSON."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.graph.benchmark.aggregates import aggregate, compare, total
from cuda_llm.graph.benchmark.folder import SCHEMA, BenchmarkFolder, BenchmarkPlan
from cuda_llm.graph.benchmark.paired import compare_pairs
from cuda_llm.graph.benchmark.row import STAGES, LibraryTime, SizeRow, TaskRow
from cuda_llm.graph.benchmark.sweep import spell_value, values_of
from cuda_llm.graph.benchmark.tables import Page, Table, behind_task, make_page
from cuda_llm.traces.files import write_file

STYLE = """
body{font:14px/1.5 system-ui,sans-serif;margin:24px;max-width:100%}
div{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:2px 10px 2px 4px;border-bottom:1px solid #8884;text-align:left;white-space:nowrap}
p{color:#6e7781;max-width:80ch}
"""
TASK_COLUMNS = (
    *("task", "state", "error", "run", "device", "time_source", "objective", "speedup", "best"),
    *("written_by", "model", "passed", "asked_as_published", "rounds", "evaluations"),
    *("model_calls", "input_tokens", "output_tokens", "usd", "not_inspected", "libraries_note"),
    *("over_playbook", "best_round", "first_round_evaluations", "first_round_passed"),
)
FIRST_COLUMNS = ("seconds", "model_calls", "input_tokens", "output_tokens", "usd")
SIZE_COLUMNS = (
    *("baseline_us", "best_us", "speedup", "least_us", "roofline_share"),
    *("baseline_roofline_share", "over_library", "copy_us"),
)
COLUMNS = (
    *TASK_COLUMNS,
    *("verdicts", "passes_theirs_fails_ours", "limiters", "launches_to_pay"),
    *(f"seconds_{name}" for name in STAGES),
    *(f"first_appeared_{name}" for name in FIRST_COLUMNS),
    "size",
    *(f"size_{name}" for name in SIZE_COLUMNS),
    "size_launches_to_pay",
    *("library", "library_us"),
)
"""Of the CSV: a row a task and size, what concerns the task repeated; a task without a timed size
has one row."""


def write_tables(folder: BenchmarkFolder, plan: BenchmarkPlan, rows: Sequence[TaskRow]) -> None:
    """Write all four forms, each whole. Raises UsageError where they cannot be written."""
    page = make_page(plan, rows)
    forms = {
        "md": markdown(page),
        "csv": csv_text(rows),
        "json": json.dumps(document(folder, plan, rows), indent=1, ensure_ascii=False) + "\n",
        "html": html(page),
    }
    for ending, text in forms.items():
        write_file(folder.path / f"table.{ending}", text)


def document(
    folder: BenchmarkFolder, plan: BenchmarkPlan, rows: Sequence[TaskRow]
) -> dict[str, Any]:
    """Return everything as plain JSON."""
    return {
        "schema": SCHEMA,
        "folder": str(folder.path),
        **{name: value for name, value in encode(plan).items() if name != "config"},
        "settings": plan.settings,
        "rows": [task_fields(one) for one in rows],
        **(sweep_fields(rows) if plan.sweep else {}),
        "aggregates": [encode(one) for one in aggregate(rows)],
        "totals": encode(total(rows)),
    }


def sweep_fields(rows: Sequence[TaskRow]) -> dict[str, Any]:
    """Return what a sweep has beside its rows."""
    return {
        "comparison": [encode(one) for one in compare(rows)],
        "pairs": [encode(one) for one in compare_pairs(rows)],
    }


def task_fields(row: TaskRow) -> dict[str, Any]:
    """Return a row with what follows from its fields."""
    sizes = [{**encode(one), **derived(row, one)} for one in row.sizes]
    return {**encode(row), **whole(row), "sizes": sizes}


def whole(row: TaskRow) -> dict[str, Any]:
    """Return what follows from the fields of a row."""
    names = ("passed", "over_library", "roofline_share")
    return {
        **{name: getattr(row, name) for name in names},
        "launches_to_pay": row.launches_to_pay(row.sizes),
    }


def derived(row: TaskRow, size: SizeRow) -> dict[str, Any]:
    """Return what follows from the fields of a size of a row."""
    names = ("roofline_share", "baseline_roofline_share", "over_library")
    return {
        **{name: getattr(size, name) for name in names},
        "launches_to_pay": row.launches_to_pay((size,)),
    }


def csv_text(rows: Sequence[TaskRow]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    swept = tuple(f"setting_{name}" for name in values_of(one.setting for one in rows))
    columns = behind_task(swept, COLUMNS)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        about = task_columns(row)
        writer.writerows(
            [{**about, **size_columns(row, one)} for one in row.sizes] or [about],
        )
    return text.getvalue()


def task_columns(row: TaskRow) -> dict[str, Any]:
    """Return the cells that concern the task."""
    first = row.first_appeared
    return {
        **{name: getattr(row, name) for name in TASK_COLUMNS},
        **{f"setting_{name}": spell_value(value) for name, value in row.setting.items()},
        "verdicts": "; ".join(f"{code} {count}" for code, count in row.verdicts.items()),
        "passes_theirs_fails_ours": len(row.passes_theirs_fails_ours),
        "limiters": "; ".join(row.limiters),
        "launches_to_pay": row.launches_to_pay(row.sizes),
        **{f"seconds_{name}": row.seconds.get(name) for name in STAGES},
        **{
            f"first_appeared_{name}": None if first is None else getattr(first, name)
            for name in FIRST_COLUMNS
        },
    }


def size_columns(row: TaskRow, size: SizeRow) -> dict[str, Any]:
    """Return the cells that concern one size."""
    library = size.library or LibraryTime(name="", time_us=0.0)
    return {
        "size": "; ".join(f"{name}={extent}" for name, extent in size.dims.items()),
        **{f"size_{name}": getattr(size, name) for name in SIZE_COLUMNS},
        "size_launches_to_pay": row.launches_to_pay((size,)),
        "library": library.name,
        "library_us": library.time_us or None,
    }


def markdown(page: Page) -> str:
    """Return the page as Markdown."""
    return "\n".join(_markdown_lines(page)) + "\n"


def _markdown_lines(page: Page) -> Iterator[str]:
    yield f"# {page.title}"
    yield ""
    yield from (f"- {one}" for one in page.facts)
    for table in page.tables:
        yield from ("", f"## {table.title}", "")
        head, *body = table.rows
        yield _markdown_row(head)
        yield _markdown_row(["---"] * len(head))
        yield from map(_markdown_row, body)
        yield from ("", table.note)
    if page.notes:
        yield from ("", "## Notes", "", *(f"- {one}" for one in page.notes))


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(" ".join(one.replace("|", "\\|").split()) for one in cells) + " |"


def html(page: Page) -> str:
    """Return the page as one HTML file without a script; all text is escaped."""
    facts = "".join(f"<li>{escape(one)}</li>" for one in page.facts)
    notes = "".join(f"<li>{escape(one)}</li>" for one in page.notes)
    parts = [
        f"<h1>{escape(page.title)}</h1><ul>{facts}</ul>",
        *map(_html_table, page.tables),
        f"<h2>Notes</h2><ul>{notes}</ul>" if notes else "",
    ]
    head = f'<meta charset="utf-8"><title>{escape(page.title)}</title><style>{STYLE}</style>'
    body = "".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _html_table(table: Table) -> str:
    head, *body = table.rows
    lines = [_html_row(head, "th"), *(_html_row(one, "td") for one in body)]
    note = f"<p>{escape(table.note)}</p>"
    return f"<h2>{escape(table.title)}</h2><div><table>{''.join(lines)}</table></div>{note}\n"


def _html_row(cells: Sequence[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(one)}</{tag}>' for one in cells)}</tr>"
