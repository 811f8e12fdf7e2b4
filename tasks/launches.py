"""The launch of a kernel as its author wrote it, in the names of the kernel's parameters."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.source_tokens import Token, TokenKind
from cuda_llm.tasks.cuda_source import (
    CudaSource,
    Declared,
    DefinedFunction,
    Launch,
    closing,
    split_at_commas,
)
from cuda_llm.tasks.macros import spell

_KNOWN = frozenset({
    "dim3", "int", "unsigned", "long", "short", "char", "float", "double", "bool", "size_t",
    "sizeof", "const", "constexpr", "auto", "static", "signed", "min", "max", "std", "ceil",
    "ceilf", "floor", "sqrt", "sqrtf", "log2", "log2f", "pow", "abs", "uint3", "int64_t",
    "uint64_t", "int32_t", "uint32_t", "uint", "static_cast", "true", "false", "if", "else",
    "return", "x", "y", "z", "half", "__half",
})  # fmt: skip
"""Names that mean something everywhere."""
_NOT_TYPES = frozenset({
    "return", "if", "else", "for", "while", "do", "switch", "case", "goto", "delete", "throw",
})  # fmt: skip
_USING = ["using", "namespace"]
_MOST_STATEMENTS = 40
LARGEST_BLOCK = 1024
"""A larger number in a launch is a size."""


@dataclass(frozen=True, kw_only=True)
class AuthorsLaunch:
    """What stands between `<<<` and `>>>`, and the statements that it needs first."""

    statements: tuple[str, ...]
    configuration: tuple[str, ...]
    """Grid, block and, where given, bytes of shared memory; the stream is left out."""
    has_sizes: bool
    """Whether numbers above LARGEST_BLOCK decide it, which then fit one size alone."""


def find_launch(
    source: CudaSource, kernel: DefinedFunction, template: Sequence[str]
) -> AuthorsLaunch | None:
    """Return the first launch of `kernel` in the source that can be written in its parameters."""
    launches = [one for one in source.launches() if one.kernel == kernel.name]
    fitting = [one for one in launches if one.template == tuple(template)] or launches
    found = (_in_parameters(source, kernel, one) for one in fitting)
    return next((one for one in found if one is not None), None)


def passed_as(launch: Launch, kernel: DefinedFunction, name: str) -> str:
    """Return the variable that a launch passes for a parameter; empty where it passes none."""
    for parameter, given in zip(kernel.parameters, launch.passed, strict=False):
        if parameter.name == name:
            plain = _without_cast(given)
            return plain[0].text if len(plain) == 1 and plain[0].kind == TokenKind.NAME else ""
    return ""


def clears(launch: Launch, variable: str) -> bool:
    """Return whether the function around a launch sets all of `variable` to zero before."""
    body = launch.within.body[: launch.at]
    return any(
        one.text.startswith("cudaMemset")
        and [t.text for t in body[at + 1 : at + 5]] == ["(", variable, ",", "0"]
        for at, one in enumerate(body)
    )


def _in_parameters(
    source: CudaSource, kernel: DefinedFunction, launch: Launch
) -> AuthorsLaunch | None:
    configuration = launch.configuration[:3]
    if len(configuration) < 2 or len(launch.passed) > len(kernel.parameters):
        return None
    pairs = list(zip(kernel.parameters, launch.passed, strict=False))
    bound = _bound(pairs)
    body = _statements(launch.within.body[: launch.at])
    spelled = [_with_parameters(part, pairs) for part in configuration]
    needed: list[tuple[int, tuple[Token, ...]]] = []
    seen: set[str] = set()
    waiting = [name for part in spelled for name in _names(part)]
    while waiting:
        name = waiting.pop()
        if name in seen or name in bound:
            continue
        seen.add(name)
        found = list(_statements_of(name, body))
        if not found:
            if name not in source.names and name not in _KNOWN:
                return None
            if name not in _KNOWN and launch.within.in_class:
                return None  # It may be the class's own.
            continue
        if len(needed) + len(found) > _MOST_STATEMENTS:
            return None
        if name in {one.name for one in kernel.parameters}:
            return None
        for at, statement in found:
            text = _with_parameters(statement, pairs)
            needed.append((at, text))
            waiting += _names(text)
    ordered = [text for _, text in sorted(dict(needed).items())]
    renamed = [[_renamed(one, bound) for one in text] for text in (*ordered, *spelled)]
    texts = [spell(one) for one in renamed]
    while len(spelled) > 2 and [one.text for one in spelled[-1]] == ["0"]:
        spelled.pop()
        texts.pop()
    scope = "::".join(launch.within.scope)
    opened = [scope] if scope and not launch.within.in_class else []
    opened += [spell(one[2:]) for one in body if [w.text for w in one[:2]] == _USING]
    return AuthorsLaunch(
        statements=(
            *(f"using namespace {one};" for one in opened),
            *(f"{text};" for text in texts[: len(ordered)]),
        ),
        configuration=tuple(texts[len(ordered) :]),
        has_sizes=any(map(_is_size, (one for text in renamed for one in text))),
    )


def _bound(pairs: Sequence[tuple[Declared, Sequence[Token]]]) -> Mapping[str, str]:
    """Return the parameter that each variable is passed for."""
    bound: dict[str, str] = {}
    for parameter, given in pairs:
        plain = _without_cast(given)
        if len(plain) == 1 and plain[0].kind == TokenKind.NAME and not parameter.pointers:
            bound.setdefault(plain[0].text, parameter.name)
    return bound


def _without_cast(tokens: Sequence[Token]) -> Sequence[Token]:
    words = [one.text for one in tokens]
    if words[:1] == ["("] and ")" in words and words.index(")") < len(words) - 1:
        inside = words[1 : words.index(")")]
        if inside and all(word in _KNOWN for word in inside):
            return tokens[words.index(")") + 1 :]
    if words[:2] == ["static_cast", "<"] and words[-1:] == [")"] and "(" in words:
        return tokens[words.index("(") + 1 : -1]
    return tokens


def _with_parameters(
    tokens: Sequence[Token], pairs: Sequence[tuple[Declared, Sequence[Token]]]
) -> tuple[Token, ...]:
    """Return tokens with each passed expression of several tokens, as `rows * cols`, replaced by
    the parameter it is passed for."""
    result = list(tokens)
    for parameter, given in pairs:
        words = [one.text for one in given]
        if parameter.pointers or len(words) < 3:
            continue
        at = 0
        while at + len(words) <= len(result):
            if [one.text for one in result[at : at + len(words)]] == words:
                whole = result[at : at + len(words)]
                # No name: a variable of the same name may be another one.
                name = whole[0]._replace(
                    kind=TokenKind.LITERAL, text=parameter.name, end=whole[-1].end
                )
                result[at : at + len(words)] = [name]
            at += 1
    return tuple(result)


def _names(tokens: Sequence[Token]) -> Iterator[str]:
    for at, token in enumerate(tokens):
        before = tokens[at - 1].text if at else ""
        if token.kind == TokenKind.NAME and before not in (".", "->", "::"):
            yield token.text


def _statements(body: Sequence[Token]) -> list[tuple[Token, ...]]:
    """Return the statements of a body, those inside of others too."""
    statements: list[list[Token]] = [[]]
    depth = at = 0
    while at < len(body):
        token = body[at]
        depth += (token.text in ("(", "[")) - (token.text in (")", "]"))
        opens_list = token.text == "{" and at and _begins_list(statements[-1])
        if opens_list:
            end = closing(body, at)
            statements[-1] += body[at : end + 1]
            at = end
        elif token.text in ("{", "}") or (token.text == ";" and depth <= 0):
            statements.append([])
        else:
            statements[-1].append(token)
        at += 1
    return [tuple(one) for one in statements if one]


def _begins_list(head: Sequence[Token]) -> bool:
    """Return whether a brace behind these tokens begins values: `dim3 grid{` or `int a[] = {`."""
    if not head:
        return False
    last = head[-1]
    if last.text in ("=", "(", ",", "]"):
        return True
    declares = len(head) > 1 and head[-2].kind == TokenKind.NAME and last.kind == TokenKind.NAME
    return declares and head[-2].text not in ("struct", "class", "enum", "namespace", "union")


def _statements_of(
    name: str, body: Sequence[tuple[Token, ...]]
) -> Iterator[tuple[int, tuple[Token, ...]]]:
    """Yield what declares a variable and gives it values, with places in the body."""
    for number, statement in enumerate(body):
        declared = _declaration_of(name, statement)
        if declared is not None:
            yield 100 * number + declared[0], declared[1]
        elif _assigns(name, statement):
            yield 100 * number, statement


def _declaration_of(
    name: str, statement: tuple[Token, ...]
) -> tuple[int, tuple[Token, ...]] | None:
    """Return the declaration of a variable, and which declarator of its statement it is."""
    if statement[0].kind != TokenKind.NAME or statement[0].text in _NOT_TYPES:
        return None
    parts = split_at_commas(statement, angles=False)
    first = _declared_at(parts[0])
    if first is None:
        return None
    if parts[0][first].text == name:
        return 0, parts[0]
    begin = first
    while begin and parts[0][begin - 1].text in ("*", "&"):
        begin -= 1
    for number, part in enumerate(parts[1:], start=1):
        words = [one.text for one in part if one.text not in ("*", "&")]
        if words[:1] == [name]:
            return min(number, 99), (*parts[0][:begin], *part)
    return None


def _declared_at(part: Sequence[Token]) -> int | None:
    """Return the index of the variable that a declaration names; None for other statements."""
    for at, token in enumerate(part):
        if token.text in ("=", "(", "{", "["):
            at -= 1
            break
    if at < 1 or part[at].kind != TokenKind.NAME:
        return None
    before = part[at - 1]
    is_type = before.kind == TokenKind.NAME or before.text in ("*", "&", ">")
    return at if is_type else None


def _assigns(name: str, statement: Sequence[Token]) -> bool:
    at = 0
    if statement[0].text == "if" and len(statement) > 1:
        at = closing(statement, 1) + 1
    words = [one.text for one in statement[at : at + 4]]
    if words[:1] != [name] or len(words) < 2:
        return False
    return words[1].endswith("=") or (words[1] == "." and words[-1].endswith("="))


def _renamed(token: Token, bound: Mapping[str, str]) -> Token:
    if token.kind != TokenKind.NAME:
        return token
    return token._replace(text=bound.get(token.text, token.text))


def _is_size(token: Token) -> bool:
    digits = token.text.rstrip("uUlL").replace("'", "")
    return token.kind == TokenKind.NUMBER and digits.isdigit() and int(digits) > LARGEST_BLOCK
