"""A gathered run as one HTML file that needs no network.

What comes from models and kernels is data in it: JSON whose `<` is escaped, and gzip in base64. A
policy in the file lets the browser run our script, by its hash, and load nothing.
"""

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from cuda_llm.codec import encode
from cuda_llm.traces.report.gather import Gathered

SCRIPTS = (
    *("base.js", "plot.js", "code.js", "progress.js", "tree.js", "table.js", "timeline.js"),
    *("story.js", "candidate.js", "speed.js", "roofline.js", "compare.js", "main.js"),
)
"""Parts of one script, in this order."""
STYLES = ("theme.css", "page.css", "plot.css")
RUNS_STYLES = (*STYLES, "runs.css")
LESS_SPACE = (",", ":")
DIGITS = 6
"""Of figures in the page: no plot and no table shows more."""


def render_page(gathered: Gathered, other: Gathered | None = None) -> str:
    """Return the HTML of a run, beside another one where one is given."""
    script, style = _asset_text(SCRIPTS), _asset_text(STYLES)
    data = {"run": shortened(encode(gathered.run))}
    if other is not None:
        data["other"] = shortened(encode(other.run))
    html: str = _template().render(
        title=f"{gathered.run.task} · {gathered.run.run_id}",
        policy=_policy(script, style),
        script=script,
        style=style,
        data=as_script_data(data),
        packed=pack(gathered),
        summary=gathered.run.result,
    )
    return html


def render_plain(template: str, **values: Any) -> str:
    """Return a page that needs no script: the list of runs, or their kernels."""
    style = _asset_text(RUNS_STYLES)
    found = _environment().get_template(template)
    html: str = found.render(**values, policy=_policy("", style), style=style)
    return html


def pack(gathered: Gathered) -> str:
    """Return candidates and texts, lines that repeat stored once, as gzip in base64."""
    lines: dict[str, int] = {}
    texts = {
        name: [lines.setdefault(line, len(lines)) for line in text.split("\n")]
        for name, text in gathered.texts.items()
    }
    whole = {
        "candidates": {one.id: shortened(encode(one)) for one in gathered.candidates},
        "lines": list(lines),
        "texts": texts,
    }
    text = json.dumps(whole, separators=LESS_SPACE, ensure_ascii=False, allow_nan=False)
    squeezed = gzip.compress(text.encode(errors="replace"), compresslevel=6, mtime=0)
    return base64.b64encode(squeezed).decode()


def as_script_data(value: Any) -> str:
    """Return JSON that nothing in it can end or open a tag of the page with."""
    text = json.dumps(value, separators=LESS_SPACE, ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def shortened(value: Any) -> Any:
    """Return plain JSON with figures rounded to as many digits as anybody reads."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: shortened(one) for key, one in value.items()}
    return [shortened(one) for one in value] if isinstance(value, list) else value


def _policy(script: str, style: str) -> str:
    parts = ["default-src 'none'", "base-uri 'none'", "form-action 'self'"]
    parts += [f"script-src '{_hash(script)}'"] if script else []
    return "; ".join([*parts, f"style-src '{_hash(style)}'"])


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset_text(names: Iterable[str]) -> str:
    """Return files of the page, one below the other."""
    return "\n" + "\n".join(_asset(name) for name in names)


@cache
def _asset(name: str) -> str:
    found = files("cuda_llm.traces.report") / "assets" / name
    return found.read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    return Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )


def _template() -> Any:
    return _environment().get_template("report.html.j2")
