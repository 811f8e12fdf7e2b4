"""Who came from whom: the candidates of a run as a tree, failures where they were made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from cuda_llm.redaction import printable
from cuda_llm.traces.report.view import Row
from cuda_llm.traces.terminal.short import order_of, outcome_of, tone_of
from cuda_llm.traces.text import Line


@dataclass(frozen=True, kw_only=True)
class Branch:
    """One candidate in the tree."""

    row: Row
    depth: int
    """0 for one that has no parent in the run."""
    last: tuple[bool, ...]
    """Whether it and each of its ancestors, outermost first, is the last of its parent."""


def grow_tree(rows: Sequence[Row]) -> Iterator[Branch]:
    """Yield every candidate once, each below its parent and before the next of the same parent.

    Candidates of damaged runs whose parents go in a circle stand at the top.
    """
    names = {row.id for row in rows}
    children: dict[str | None, list[Row]] = {}
    for row in rows:
        children.setdefault(row.parent if row.parent in names else None, []).append(row)
    seen: set[str] = set()
    left = _stack(children.get(None, ()), ())
    for start in (None, *rows):
        if start is not None and start.id not in seen:
            left = _stack((start,), ())
        while left:
            branch = left.pop()
            if branch.row.id in seen:
                continue
            seen.add(branch.row.id)
            yield branch
            left += _stack(children.get(branch.row.id, ()), branch.last)


def _stack(rows: Sequence[Row], above: tuple[bool, ...]) -> list[Branch]:
    """Return the branches of one parent, the first one at the end."""
    return [
        Branch(row=row, depth=len(above), last=(*above, row is rows[-1])) for row in reversed(rows)
    ]


def describe_tree(rows: Sequence[Row], best: str | None) -> Iterator[Line]:
    """Yield a line a candidate, behind its lines to its parent and its ancestors."""
    branches = list(grow_tree(rows))
    width = max((3 * one.depth + len(printable(one.row.id)) for one in branches), default=0)
    for one in branches:
        row, lines = one.row, ""
        for index, last in enumerate(one.last[1:], start=1):
            own = index == one.depth
            lines += ("└─ " if last else "├─ ") if own else ("   " if last else "│  ")
        detail = row.summary if row.failed else row.idea or row.direction
        name = printable(row.id)
        yield (
            ("* " if row.id == best else "  ", "good"),
            (lines, "faint"),
            (f"{name:<{width - len(lines)}}", "strong" if row.id == best else ""),
            (f"  {' '.join(outcome_of(row).split()):<18}", tone_of(row, best)),
            (f"  {order_of(row).split(' ')[0]:<9}", "faint"),
            (f"  {printable(' '.join(detail.split()))}".rstrip(), ""),
        )
