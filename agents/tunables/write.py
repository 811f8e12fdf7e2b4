"""Writes a kernel at one point of its space, as a person would write it for that point alone."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from cuda_llm.agents.tunables.preprocessor import Piece, build_tree, resolve
from cuda_llm.agents.tunables.read import KEYWORD, read_space
from cuda_llm.agents.tunables.space import InvalidDeclaration, Point, is_valid
from cuda_llm.source_tokens import Line, TokenKind, split_lines


def write_point(source: str, point: Point, *, keep_declarations: bool = False) -> str:
    """Return `source` with the values of `point`.

    The result is specialised: `#if` blocks that tunables and integer literals alone decide are
    resolved, defines of tunables (and defines made from them) that nothing uses any more are gone
    with the comment lines right above them, and so are the declarations. It gives the compiler the
    tokens that `source` with other defaults would, and points that differ only where it does not
    matter give the same tokens. Names that `source` does not declare are ignored, so a specialised
    source stays as it is.

    With `keep_declarations` only the defaults change: the kernel can be tuned again.

    Raises ValueError where the declarations cannot be used or the point is not of their space.
    """
    space = read_space(source)
    if space is None:
        return source
    if isinstance(space, InvalidDeclaration):
        raise ValueError(str(space))
    values = {one.name: point[one.name] for one in space.tunables if one.name in point}
    if not is_valid(space, values):
        raise ValueError(f"{dict(point)} is no point of this space")
    lines, tree = _parse(source)
    if keep_declarations:
        return "".join(_at(line, values, keep_declarations=True) for line in lines)
    kept = _drop_unused(tuple(resolve(tree, values, {})), values)
    return "".join(_tidy(lines, {line.start for line in kept}, values))


@lru_cache(maxsize=16)
def _parse(source: str) -> tuple[tuple[Line, ...], tuple[Piece, ...]]:
    lines = tuple(split_lines(source))
    return lines, build_tree(lines)


def _drop_unused(lines: tuple[Line, ...], values: Mapping[str, int]) -> tuple[Line, ...]:
    """Remove the unused defines of tunables, and of names made from them.

    All stay where names may be put together (`##`) or hide in a pragma's text.
    """
    uses = Counter(word for line in lines for word in line.words)
    if uses["##"] or uses["_Pragma"]:
        return lines
    free = set(_made_from(lines, values))
    while unused := {line for line in lines if line.defines in free and uses[line.defines] == 1}:
        for line in unused:
            uses.subtract(line.words)
        lines = tuple(line for line in lines if line not in unused)
    return lines


def _made_from(lines: Sequence[Line], values: Mapping[str, int]) -> Iterator[str]:
    """Yield names defined outside of any block that are tunables or whose text uses such names."""
    made = set(values)
    for node in build_tree(lines):
        if isinstance(node, Line) and (node.defines in made or made & set(node.words[3:])):
            made.add(node.defines)
            yield node.defines


def _tidy(
    lines: Sequence[Line], kept: frozenset[int] | set[int], values: Mapping[str, int]
) -> Iterator[str]:
    """Yield the texts of the kept lines, with the values of `values`.

    Comments right above a dropped definition go with it, and where something went no second empty
    line in a row is left.
    """
    dropped, last_blank = False, True
    for line, above in zip(lines, _defined_below(lines), strict=True):
        stays = line.start in kept and (above is None or above in kept)
        text = _at(line, values, keep_declarations=False) if stays else ""
        blank = not text.strip()
        if not text or (blank and dropped and last_blank):
            dropped = True
            continue
        yield text
        dropped, last_blank = False, blank


def _defined_below(lines: Sequence[Line]) -> list[int | None]:
    """Return, for each line of only a comment, where the definition right below it starts."""
    below: list[int | None] = []
    start: int | None = None
    for line in reversed(lines):
        is_comment = not line.words and bool(line.text.strip())
        below.append(start if is_comment else None)
        if not is_comment:
            start = line.start if line.defines else None
    return below[::-1]


def _at(line: Line, values: Mapping[str, int], *, keep_declarations: bool) -> str:
    """Return the text of the line at a point; empty for a line of only a declaration."""
    comments = [one for one in line.tokens if one.kind == TokenKind.COMMENT]
    matches = ((one, KEYWORD.fullmatch(one.text)) for one in comments)
    comment, found = next(((one, match) for one, match in matches if match), (None, None))
    if not comment or not found:
        return line.text
    text = line.text
    if not keep_declarations:
        words = found[2].partition(";")[2].strip() if found[1] == "tunable" else ""
        front, back = text[: comment.start - line.start], text[comment.end - line.start :]
        text = front.rstrip() + (f"  // {words}" if words else "") + back
    if found[1] == "tunable" and line.defines in values:
        body = next(one for one in reversed(line.tokens) if one.kind == TokenKind.NUMBER)
        sign = next((one for one in line.tokens if one.text == "-"), body)
        begin, end = min(sign.start, body.start) - line.start, body.end - line.start
        text = f"{text[:begin]}{values[line.defines]}{text[end:]}"
    return text if keep_declarations or text.strip() else ""
