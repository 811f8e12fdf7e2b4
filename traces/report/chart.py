"""Panels of best-so-far as one SVG that needs no style sheet: colours are attributes, which a page
may set otherwise by class."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape, quoteattr

from cuda_llm.redaction import printable
from cuda_llm.traces.report.courses import Course, GroupCourse, Panel
from cuda_llm.traces.report.selection import AXES

WIDTH, HEIGHT = 900, 360
LEFT, RIGHT, TOP, BOTTOM = 62, 20, 30, 46
LEGEND_LINE = 18
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#9a6b00", "#56b4e9", "#7a4fb5", "#555555")
"""Okabe and Ito's colours, which the colour-blind can distinguish; dashes say the same."""
DASHES = ("", "7 3", "2 3", "9 3 2 3")
MOST_GROUPS = 12
"""Lines of a panel; more cannot be distinguished."""
LOGARITHMIC_FROM = 6.0
"""Ratio of the highest to the lowest speed-up from which the axis is logarithmic."""
LONGEST_NAME = 96
SHOWS_BASELINE_BELOW = 2.5
"""Where every speed-up is above this, the axis begins at the data and leaves the baseline out."""
BEYOND_END = 1.03
"""How far a finished run's line goes beyond its last choice, so that its result has a length."""


class Scale:
    """Values of an axis to places of the picture."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool) -> None:
        self.log = log
        self.low, self.high = (log10(low), log10(high)) if log else (low, high)
        self.start, self.end = start, end
        self.ticks = _log_ticks(low, high) if log else _ticks(low, high)

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        at = log10(value) if self.log else value
        span = self.high - self.low or 1.0
        return self.start + (at - self.low) / span * (self.end - self.start)


def _ticks(low: float, high: float) -> list[float]:
    raw = (high - low or 1.0) / 6
    power = 10.0 ** floor(log10(raw))
    step = next(one * power for one in (1, 2, 5, 10) if one * power >= raw)
    count = range(ceil(low / step - 1e-9), floor(high / step + 1e-9) + 1)
    return [k * step for k in count]


def _log_ticks(low: float, high: float) -> list[float]:
    decades = log10(high / low)
    steps = (1,) if decades > 3 else (1, 2, 5) if decades > 1 else (1, 1.5, 2, 3, 4, 5, 7)
    found = [step * 10.0**power for power in range(floor(log10(low)), 13) for step in steps]
    return [one for one in found if low <= one <= high]


def draw_chart(panels: Sequence[Panel], x: str) -> str:
    """Return the panels below each other as one SVG document."""
    heights = [_height(panel) for panel in panels]
    total = sum(heights) or 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="courses" width="{WIDTH}" '
        f'height="{total}" viewBox="0 0 {WIDTH} {total}" font-family="DejaVu Sans, sans-serif" '
        'font-size="12" role="img" aria-label="best speed-up so far">'
    ]
    if not panels:
        parts.append('<text x="10" y="24">No run has a kernel to draw.</text>')
    top = 0
    for panel, height in zip(panels, heights, strict=True):
        parts += [f'<g transform="translate(0,{top})">', *_panel(panel, x), "</g>"]
        top += height
    return "\n".join([*parts, "</svg>"])


def _height(panel: Panel) -> int:
    if not any(one.runs for one in panel.groups):
        return TOP + 40
    return HEIGHT + LEGEND_LINE * min(len(panel.groups), MOST_GROUPS + 1) + 10


def _panel(panel: Panel, x_name: str) -> Iterator[str]:
    yield _text(panel.title, 8, 17, 'font-weight="bold"')
    drawn = [one for one in panel.groups if one.runs][:MOST_GROUPS]
    if not drawn:
        yield _text(f"No run of this panel has a kernel and {AXES[x_name]}.", 8, TOP + 14)
        return
    values = [value for one in drawn for run in one.runs for _, value in run.points]
    if min(values) < SHOWS_BASELINE_BELOW:
        values.append(1.0)
    ends = [run.end for one in drawn for run in one.runs] + [one.end for one in drawn]
    low, high = min(values), max(values)
    log = high / low > LOGARITHMIC_FROM
    room = 0.06 * (high - low) or 0.1
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    y = Scale(
        *((low / 1.12, high * 1.12) if log else (low - room, high + room)), bottom, TOP, log=log
    )
    x = Scale(0.0, (max(ends) or 1.0) * BEYOND_END, LEFT, right, log=False)
    yield from _axes(x, y, AXES[x_name], f"speed-up (x, {panel.time_source or 'unknown'})")
    for index, one in enumerate(drawn):
        yield from _draw_group(one, index, x, y)
    top = HEIGHT + 4
    for index, one in enumerate(drawn):
        yield from _legend(one, index, top + LEGEND_LINE * index)
    left_out = len(panel.groups) - len(drawn)
    if left_out:
        more = f"{left_out} more groups are not drawn: no kernel, or beyond {MOST_GROUPS} lines"
        yield _text(more, LEFT, top + LEGEND_LINE * len(drawn) + 10, 'class="soft"')


def _axes(x: Scale, y: Scale, x_name: str, y_name: str) -> Iterator[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in y.ticks:
        at = y(tick)
        yield f'<path class="grid" d="M{LEFT},{at:.1f}H{right}" stroke="#d5d9df" fill="none"/>'
        yield _text(f"{tick:.4g}", LEFT - 7, at + 4, 'text-anchor="end"')
    for tick in x.ticks:
        yield f'<path class="tick" d="M{x(tick):.1f},{bottom}v4" stroke="#1b1f24" fill="none"/>'
        yield _text(f"{tick:,.6g}", x(tick), bottom + 17, 'text-anchor="middle"')
    if y(1) <= bottom:
        yield (
            f'<path class="baseline" d="M{LEFT},{y(1):.1f}H{right}" stroke="#57606a" '
            'stroke-dasharray="5 4" fill="none"/>'
        )
        yield _text("baseline", LEFT + 4, y(1) - 4, 'class="soft"')
    yield (f'<path class="frame" d="M{LEFT},{TOP}V{bottom}H{right}" stroke="#1b1f24" fill="none"/>')
    yield _text(x_name, (LEFT + right) / 2, HEIGHT - 8, 'text-anchor="middle"')
    middle = (TOP + bottom) / 2
    scale = f"{y_name}, logarithmic" if y.log else y_name
    turned = f'text-anchor="middle" transform="translate(14,{middle}) rotate(-90)"'
    yield _text(scale, 0, 0, turned)


def _draw_group(one: GroupCourse, index: int, x: Scale, y: Scale) -> Iterator[str]:
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // 2 % len(DASHES)]
    for run in one.runs:
        yield (
            f'<path class="run" d="{_run_path(run, x, y)}" stroke="{colour}" stroke-width="0.9" '
            f'stroke-opacity="0.45" fill="none"><title>{_escape(run.run_id)}</title></path>'
        )
    if not one.steps:
        return
    end = one.end * (BEYOND_END if all(run.finished for run in one.runs) else 1.0)
    if len(one.runs) > 1:
        low = _steps([(at, y(value)) for at, value, _, _ in one.steps], end, x)
        high = _steps([(at, y(value)) for at, _, _, value in one.steps], end, x)
        back = " ".join(f"L{at:.1f},{place:.1f}" for at, place in reversed(low))
        band = "M" + " L".join(f"{at:.1f},{place:.1f}" for at, place in high) + back
        yield f'<path class="band" d="{band}Z" fill="{colour}" fill-opacity="0.14"/>'
    line = _steps([(at, y(value)) for at, _, value, _ in one.steps], end, x)
    path = "M" + " L".join(f"{at:.1f},{place:.1f}" for at, place in line)
    yield (
        f'<path class="median" d="{path}" stroke="{colour}" stroke-width="2.4" fill="none" '
        f"stroke-dasharray={quoteattr(dash or 'none')}><title>{_escape(one.name)}</title></path>"
    )
    at, place = line[-1]
    yield f'<circle cx="{at:.1f}" cy="{place:.1f}" r="3.5" fill="{colour}"/>'


def _steps(
    points: Sequence[tuple[float, float]], end: float, x: Scale
) -> list[tuple[float, float]]:
    """Return the corners of a line that changes only where it is said to."""
    corners: list[tuple[float, float]] = []
    for at, place in points:
        if corners:
            corners.append((x(at), corners[-1][1]))
        corners.append((x(at), place))
    return [*corners, (x(max(end, points[-1][0])), corners[-1][1])]


def _run_path(run: Course, x: Scale, y: Scale) -> str:
    end = run.end * (BEYOND_END if run.finished else 1.0)
    corners = _steps([(at, y(value)) for at, value in run.points], end, x)
    return "M" + " L".join(f"{at:.1f},{place:.1f}" for at, place in corners)


def _legend(one: GroupCourse, index: int, top: float) -> Iterator[str]:
    colour, dash = COLOURS[index % len(COLOURS)], DASHES[index // 2 % len(DASHES)]
    yield (
        f'<path d="M{LEFT},{top + 6}h26" stroke="{colour}" stroke-width="2.4" fill="none" '
        f"stroke-dasharray={quoteattr(dash or 'none')}/>"
    )
    name = one.name if len(one.name) <= LONGEST_NAME else one.name[: LONGEST_NAME - 1] + "…"
    yield _text(f"{name}: {describe_course(one)}", LEFT + 34, top + 10)


def describe_course(one: GroupCourse) -> str:
    """Return the results of a group: `2.10x, lowest to highest 1.90x to 2.30x of 3 runs; tie`."""
    count = len(one.runs)
    words = "no result"
    if one.final is not None:
        low, middle, high = one.final
        words = f"{middle:.2f}x"
        if count > 1:
            words = f"median {middle:.2f}x of {count} runs, range {low:.2f}x to {high:.2f}x"
            words = f"tie of {count} runs at {middle:.2f}x" if low == high else words
    unfinished = sum(not run.finished for run in one.runs)
    so_far = f"{unfinished} unfinished" if unfinished else ""
    parts = [words, so_far, one.verdict, f"{one.without} not drawn" if one.without else ""]
    return "; ".join(filter(None, parts))


def _text(words: str, x: float, y: float, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {more}>{_escape(words)}</text>'


def _escape(text: str) -> str:
    """Return text that XML can hold: escaped, and without what XML forbids."""
    return escape(printable(text))
