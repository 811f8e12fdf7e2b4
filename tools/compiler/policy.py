"""Finds forbidden constructs in a candidate's source and in the files that the compiler read."""

import re
from collections.abc import Sequence
from pathlib import Path

from cuda_llm.outcomes import Diagnostic, PolicyBreach, PolicyViolation
from cuda_llm.source_file import SourceSpot
from cuda_llm.source_tokens import blank_comments, split_lines
from cuda_llm.tools.compiler.diagnostics import Diagnostics
from cuda_llm.tools.compiler.names import OUTSIDE, PathNames
from cuda_llm.tools.compiler.nvcc import PREPROCESSED
from cuda_llm.tools.device.candidate import CompileRequest

UNREADABLE = re.compile(r"^(?P<file>.+): (?:No such file or directory|Permission denied)$")
EMBED = re.compile(r"\.\s*incbin\b|^\s*#\s*embed\b", re.MULTILINE)
MARKER = re.compile(rb'^# \d+ "((?:[^"\\]|\\.)*)"', re.MULTILINE)


def find_violation(diagnostics: Diagnostics, places: PathNames) -> PolicyViolation | None:
    """Return the first rule that the source breaks, whether it compiled or not.

    The jail hides files outside; this names the attempt to read them. `.incbin` built from pieces
    escapes the text search, and then finds only what the jail shows: the toolkit.
    """
    for diagnostic in diagnostics.errors:
        if violation := _of_error(diagnostic, places.request):
            return violation
    return _embeds(places.request) or _includes(places)


def without_line_directives(source: str) -> str:
    """Return `source` with `#line` and its short form blanked; every other line keeps its place.

    Verdicts name lines of the submitted file, whatever line numbers the file claims.
    """
    return "".join(
        re.sub(r"[^\n]", " ", line.text) if _is_line_directive(line.words) else line.text
        for line in split_lines(source)
    )


def _is_line_directive(words: Sequence[str]) -> bool:
    rest = words[2:] if words[:2] == ("%", ":") else words[1:] if words[:1] == ("#",) else ()
    return bool(rest) and (rest[0] == "line" or rest[0][0].isdigit())


def _of_error(error: Diagnostic, request: CompileRequest) -> PolicyViolation | None:
    unreadable = UNREADABLE.match(error.message)
    text = error.spot.text if error.spot else ""
    if unreadable and _escapes(unreadable["file"]):
        return _outside(unreadable["file"], error.spot)
    if error.spot is not None and error.spot.file == OUTSIDE:
        return _outside(None, None)
    if "#embed" in error.message or EMBED.search(text):
        return _embedding(error.spot)
    if error.message.startswith("file not found: "):
        # The assembler's, about its temporary input: inline assembly asked for a file.
        return _embedding(_find(request, re.compile(r"\basm\b|__asm")))
    return None


def _embeds(request: CompileRequest) -> PolicyViolation | None:
    spot = _find(request, EMBED)
    return None if spot is None else _embedding(spot)


def _find(request: CompileRequest, pattern: re.Pattern[str]) -> SourceSpot | None:
    """Return the first line of code that matches, comments aside."""
    code = blank_comments(request.source)
    found = pattern.search(code)
    if found is None:
        return None
    line = code.count("\n", 0, found.end()) + 1
    return SourceSpot(
        file=request.name, line=line, text=request.source.splitlines()[line - 1].strip()
    )


def _embedding(spot: SourceSpot | None) -> PolicyViolation:
    return PolicyViolation(rule="embed-file", spot=spot)


def _includes(places: PathNames) -> PolicyViolation | None:
    """Find a file the preprocessor read that is neither the candidate's nor a library's."""
    try:
        text = (places.folder / PREPROCESSED).read_bytes()
    except OSError:
        return None
    for raw in dict.fromkeys(MARKER.findall(text)):
        file = raw.decode(errors="replace").replace('\\"', '"')
        if not file.startswith("<") and places.name(file) == OUTSIDE:
            directive = re.compile(rf"#.*include.*{re.escape(file)}")
            return _outside(file, _find(places.request, directive))
    return None


def _outside(file: str | None, spot: SourceSpot | None) -> PolicyViolation:
    """Return the verdict on reading a file outside the private folder; `file` is None where its
    name is hidden."""
    breach = PolicyBreach(kind="outside-file", names=(file,) if file else ())
    return PolicyViolation(rule="include-outside", breach=breach, spot=spot)


def _escapes(file: str) -> bool:
    path = Path(file)
    return path.is_absolute() or ".." in path.parts
