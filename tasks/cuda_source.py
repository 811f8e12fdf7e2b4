"""The functions, kernels and types that a CUDA source defines, and its launches.

Macros of the source are expanded; headers are not read. Text that is no C++ gives what can be found
in it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cuda_llm.source_tokens import Token, TokenKind
from cuda_llm.tasks.macros import expand_macros, spell

_NOT_NAMES = frozenset({
    "if", "for", "while", "switch", "return", "sizeof", "catch", "do", "else", "alignas",
    "decltype", "noexcept", "defined", "requires", "__launch_bounds__", "__attribute__",
    "__align__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__declspec",
    "static_assert",
})  # fmt: skip
"""Words before a parenthesis that name no function."""
_OPENING = {"(": ")", "[": "]", "{": "}"}
_QUALIFIERS = frozenset({
    "__restrict__", "__restrict", "restrict", "volatile", "__grid_constant__", "register",
    "struct", "class", "enum", "union", "typename",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A parameter of a function, or a member of a struct, in the words of the source."""

    name: str
    ctype: str
    """The type without qualifiers, pointers and references: `unsigned int`, `T`, `ops::Dims`."""
    pointers: int = 0
    """How many times the parameter points; an array parameter points once."""
    const: bool = False
    """Whether the elements are const."""
    reference: bool = False
    """Whether the parameter is an lvalue reference."""
    default: str = ""
    """The default argument; empty where there is none."""
    shown: str = ""
    """The whole declaration, for a person."""


@dataclass(frozen=True, kw_only=True)
class TemplateParameter:
    """A parameter of a template."""

    name: str
    is_type: bool
    default: str = ""


@dataclass(frozen=True, kw_only=True)
class DefinedFunction:
    """A function with a body."""

    name: str
    """Its own name."""
    scope: tuple[str, ...]
    """The namespaces and classes around it; a namespace without a name is left out."""
    in_class: bool
    is_static: bool
    is_kernel: bool
    on_device: bool
    """Whether it is `__device__` and not `__host__`."""
    returns: str
    """The type it returns: `void`, `cudaError_t` ..."""
    templates: tuple[TemplateParameter, ...]
    parameters: tuple[Declared, ...]
    body: tuple[Token, ...]
    """The tokens between its braces."""
    largest_block: str
    """The most threads of a block that `__launch_bounds__` allows; empty where it is not there."""
    start: int
    end: int
    """Where its definition begins and ends in the source."""

    @property
    def qualified(self) -> str:
        """Return the name by which code outside of all scopes calls the function."""
        return "::".join((*self.scope, self.name))


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A statement `kernel<arguments><<<configuration>>>(passed)`."""

    kernel: str
    """The kernel's own name."""
    template: tuple[str, ...]
    configuration: tuple[tuple[Token, ...], ...]
    passed: tuple[tuple[Token, ...], ...]
    within: DefinedFunction
    at: int
    """The index of the kernel's name in the body of `within`."""


@dataclass(frozen=True, kw_only=True)
class CudaSource:
    """What a source defines."""

    functions: tuple[DefinedFunction, ...]
    structs: Mapping[str, tuple[Declared, ...] | None]
    """Members of structs and classes by qualified name; None where they cannot be given one by one:
    a base class, a template, private members."""
    enums: Mapping[str, str]
    """Value of the first enumerator of each enum by qualified name."""
    aliases: Mapping[str, Declared]
    """Types by the names that `typedef` and `using` give them."""
    instances: Mapping[str, tuple[str, ...]]
    """Arguments of templates that the source instantiates or calls with, by the function's name."""
    names: frozenset[str]
    """Every name that stands outside of function bodies, and of macros."""

    @property
    def kernels(self) -> tuple[DefinedFunction, ...]:
        """Return the kernels in order."""
        return tuple(one for one in self.functions if one.is_kernel)

    def launches(self) -> Iterator[Launch]:
        """Yield the launches of the source in order."""
        for function in self.functions:
            yield from _launches(function)


@lru_cache(maxsize=8)
def read_cuda(source: str) -> CudaSource:
    """Return what `source` defines. Never fails."""
    reader = _Reader(expand_macros(source))
    reader.read()
    macros = frozenset(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", source, re.MULTILINE))
    return CudaSource(
        functions=tuple(reader.functions),
        structs=reader.structs,
        enums=reader.enums,
        aliases=reader.aliases,
        instances=_instances(reader),
        names=frozenset(reader.names) | macros,
    )


def split_at_commas(tokens: Sequence[Token], *, angles: bool = True) -> list[tuple[Token, ...]]:
    """Return what stands between the commas outside of all brackets; nothing for no tokens.

    `angles` says whether `<` and `>` are brackets, as they are in types.
    """
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += _depth_change(token.text, angles=angles)
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return [tuple(one) for one in parts] if tokens else []


def _depth_change(text: str, *, angles: bool) -> int:
    if text in _OPENING:
        return 1
    if text in _OPENING.values():
        return -1
    if angles and set(text) == {"<"}:
        return len(text)
    if angles and set(text) == {">"}:
        return -len(text)
    return 0


def closing(tokens: Sequence[Token], opening: int) -> int:
    """Return the index of the bracket that closes the one at `opening`, or the number of tokens."""
    depth = 0
    for at in range(opening, len(tokens)):
        depth += _depth_change(tokens[at].text, angles=False)
        if depth == 0:
            return at
    return len(tokens)


def closing_angle(tokens: Sequence[Token], opening: int) -> int:
    """Return the index behind the `>` that closes the `<` at `opening`; -1 where none does."""
    depth, at = 0, opening
    while at < len(tokens) and at < opening + 400:
        text = tokens[at].text
        if text in _OPENING:
            at = closing(tokens, at)
        elif text in (";", "{", "}", "<<<"):
            return -1
        else:
            depth += _depth_change(text, angles=True)
            if depth <= 0:
                return at + 1 if depth == 0 else -1
        at += 1
    return -1


@dataclass
class _Reader:
    tokens: Sequence[Token]
    functions: list[DefinedFunction] = field(default_factory=list)
    structs: dict[str, tuple[Declared, ...] | None] = field(default_factory=dict)
    enums: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, Declared] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    instantiated: list[Token] = field(default_factory=list)
    """Tokens of explicit instantiations: `template void f<float>(float*);`."""

    def read(self) -> None:
        at = 0
        while at < len(self.tokens):
            # A brace too many ends the scope around nothing.
            at = self._scope(at, (), in_class="") + 1

    def _scope(self, at: int, scope: tuple[str, ...], *, in_class: str) -> int:
        """Read declarations from `at` to the brace that closes their scope; return its index."""
        begin = at
        members: list[Declared] = []
        plain, public = True, in_class != "class"
        while at < len(self.tokens):
            token = self.tokens[at]
            head = self.tokens[begin:at]
            if token.text == "}":
                break
            if token.text == ";":
                declared = self._declaration(head, scope)
                plain = plain and (public or not declared)
                members += declared
                at = begin = at + 1
            elif token.text == ":" and [one.text for one in head] in _ACCESS:
                public = head[0].text == "public"
                at = begin = at + 1
            elif token.text == "{":
                at, begin, more = self._block(begin, at, scope, in_class=bool(in_class))
                members += more
            elif token.text in ("(", "["):
                at = min(closing(self.tokens, at) + 1, len(self.tokens))
            else:
                if token.kind == TokenKind.NAME:
                    self.names.add(token.text)
                at += 1
        if in_class and scope:
            self.structs["::".join(scope)] = tuple(members) if plain else None
        return at

    def _block(
        self, begin: int, at: int, scope: tuple[str, ...], *, in_class: bool
    ) -> tuple[int, int, list[Declared]]:
        """Read what the brace at `at` opens, in a declaration from `begin` on.

        Return where to go on, where the next declaration begins, and members declared on the way.
        """
        head = self.tokens[begin:at]
        words = [one.text for one in head]
        template, rest = _template(head)
        first = next((one for one in words if one not in ("typedef", "static", "const")), "")
        kind = rest[0].text if rest else first
        end = closing(self.tokens, at)
        if "namespace" in words and "(" not in words:
            inside = tuple(w for w in words[words.index("namespace") + 1 :] if w.isidentifier())
            stop = self._scope(at + 1, (*scope, *inside), in_class="")
            return stop + 1, stop + 1, []
        if words[:1] == ["extern"] and "(" not in words and "=" not in words:
            stop = self._scope(at + 1, scope, in_class="")
            return stop + 1, stop + 1, []
        if "enum" in words and "(" not in words:
            return self._enum(words, at, end, scope)
        if (kind in ("struct", "class", "union") or first in _CLASSES) and "(" not in words:
            return self._class(head, at, scope, is_template=bool(template))
        function = self._function(head, at, end, scope, in_class=in_class)
        if function is not None:
            self.functions.append(function)
            return end + 1, end + 1, []
        # An initialiser: the declaration goes on behind it.
        return min(end + 1, len(self.tokens)), begin, []

    def _enum(
        self, words: Sequence[str], at: int, end: int, scope: tuple[str, ...]
    ) -> tuple[int, int, list[Declared]]:
        named = [w for w in words[words.index("enum") + 1 :] if w not in ("class", "struct")]
        name = named[0] if named and named[0].isidentifier() else ""
        after = self.tokens[end + 1 : end + 2]
        if words[0] == "typedef" and after:
            name = after[0].text
        if name and at + 1 < end:
            given = [one.text for one in self.tokens[at + 2 : at + 4]]
            value = given[1] if given[:1] == ["="] and given[1].isdigit() else "0"
            self.enums["::".join((*scope, name))] = value
        self.names.update(one.text for one in self.tokens[at:end] if one.kind == TokenKind.NAME)
        self.names.add(name)
        stop = self._semicolon(end)
        return stop, stop, []

    def _class(
        self, head: Sequence[Token], at: int, scope: tuple[str, ...], *, is_template: bool
    ) -> tuple[int, int, list[Declared]]:
        words = [one.text for one in head]
        kind = next(one for one in words if one in _CLASSES)
        named = [
            one.text
            for one in _without_attributes(head[words.index(kind) + 1 :])
            if one.kind == TokenKind.NAME and one.text != "final"
        ]
        end = closing(self.tokens, at)
        after = [one.text for one in self.tokens[end + 1 : self._semicolon(end)]]
        name = named[0] if named else ""
        alias = after[0] if words[0] == "typedef" and after and after[0].isidentifier() else ""
        own = name or alias
        self.names.add(own)
        stop = self._scope(at + 1, (*scope, own) if own else scope, in_class=kind if own else "")
        spelled = "::".join((*scope, own))
        if ":" in words or is_template or kind == "union":
            self.structs[spelled] = None
        if alias and alias != own:
            self.aliases["::".join((*scope, alias))] = Declared(name=alias, ctype=spelled)
        next_at = self._semicolon(stop)
        return next_at, next_at, []

    def _semicolon(self, at: int) -> int:
        """Return the index behind the next semicolon from `at` on."""
        while at < len(self.tokens) and self.tokens[at].text != ";":
            at += 1
        return min(at + 1, len(self.tokens))

    def _declaration(self, head: Sequence[Token], scope: tuple[str, ...]) -> list[Declared]:
        """Read a declaration without a body; return the members it declares."""
        words = [one.text for one in head]
        if words[:1] == ["template"] and words[1:2] != ["<"]:
            self.instantiated += head
        if not words or words[0] in ("friend", "template", "extern"):
            return []
        if words[0] == "using":
            if len(words) > 3 and words[2] == "=":
                found = read_declared((*head[3:], head[1]))
                self.aliases["::".join((*scope, words[1]))] = found
            return []
        if words[0] == "typedef":
            if "(" not in words:
                found = read_declared(head[1:])
                self.aliases["::".join((*scope, found.name))] = found
            return []
        if "static" in words or "constexpr" in words or "(" in words or "namespace" in words:
            return []
        declared = split_at_commas(head)
        first = read_declared(declared[0])
        return [first, *(_beside(first, one) for one in declared[1:])]

    def _function(
        self,
        head: Sequence[Token],
        at: int,
        end: int,
        scope: tuple[str, ...],
        *,
        in_class: bool,
    ) -> DefinedFunction | None:
        templates, rest = _template(head)
        opening = _parameter_list(rest)
        if opening is None:
            return None
        shut = closing(rest, opening)
        if any(one.text == "=" for one in rest[:opening]):
            return None
        begin = opening - 1
        while begin >= 2 and rest[begin - 1].text == "::" and rest[begin - 2].kind == "name":
            begin -= 2
        own = [one.text for one in rest[begin:opening] if one.text != "::"]
        words = [one.text for one in rest[:begin]]
        returned = [
            one
            for one in _without_attributes(rest[:begin])
            if one.text not in _SPECIFIERS and one.kind != TokenKind.LITERAL
        ]
        parameters = [
            read_declared(part, number)
            for number, part in enumerate(split_at_commas(rest[opening + 1 : shut]))
            if [one.text for one in part] != ["void"]
        ]
        device = "__device__" in words and "__host__" not in words
        self.names.add(own[-1])
        return DefinedFunction(
            name=own[-1],
            scope=(*scope, *own[:-1]),
            in_class=in_class or len(own) > 1,
            is_static="static" in words or len(own) > 1,
            is_kernel="__global__" in words,
            on_device=device,
            returns=spell(returned),
            templates=templates,
            parameters=tuple(parameters),
            body=tuple(self.tokens[at + 1 : end]),
            largest_block=_launch_bounds(rest[:opening]),
            start=head[0].start,
            end=self.tokens[min(end, len(self.tokens) - 1)].end,
        )


def _instances(reader: _Reader) -> dict[str, tuple[str, ...]]:
    """Return arguments of function templates, from instantiations and from calls outside of other
    templates."""
    templates = {one.name for one in reader.functions if one.templates}
    found: dict[str, tuple[str, ...]] = {}
    bodies = [one.body for one in reader.functions if not one.templates]
    for body in (reader.instantiated, *bodies):
        for at, token in enumerate(body[:-1]):
            if token.text not in templates or body[at + 1].text != "<":
                continue
            end = closing_angle(body, at + 1)
            if end > 0:
                parts = split_at_commas(_inside(body[at + 1 : end]))
                found.setdefault(token.text, tuple(spell(one) for one in parts))
    return found


def _inside(angles: Sequence[Token]) -> list[Token]:
    """Return what stands between a `<` and the `>` that ends the tokens, or a part of `>>`."""
    inside = list(angles[1:])
    inside[-1:] = [one._replace(text=one.text[:-1]) for one in inside[-1:]]
    return [one for one in inside if one.text]


_CLASSES = ("struct", "class", "union")
_ACCESS = (["public"], ["private"], ["protected"])
_SPECIFIERS = frozenset({
    "static", "inline", "extern", "__global__", "__host__", "__device__", "__forceinline__",
    "__noinline__", "constexpr", "virtual", "explicit", "typename", "friend", "__inline__",
})  # fmt: skip
_ATTRIBUTES = frozenset({
    "__launch_bounds__", "__attribute__", "__align__", "__cluster_dims__", "__maxnreg__",
    "__block_size__", "__declspec", "alignas",
})  # fmt: skip


def _launch_bounds(head: Sequence[Token]) -> str:
    words = [one.text for one in head]
    if "__launch_bounds__" not in words:
        return ""
    opening = words.index("__launch_bounds__") + 1
    bounds = split_at_commas(head[opening + 1 : closing(head, opening)], angles=False)
    return spell(bounds[0]) if bounds else ""


def _template(head: Sequence[Token]) -> tuple[tuple[TemplateParameter, ...], Sequence[Token]]:
    """Return the parameters of `template <...>` before a declaration, and the rest of it."""
    if not head or head[0].text != "template" or len(head) < 2:
        return (), head
    end = closing_angle(head, 1)
    if end < 0:
        return (), head
    found = []
    for part in split_at_commas(_inside(head[1:end])):
        words = [one.text for one in part]
        at = words.index("=") if "=" in words else len(words)
        names = [one.text for one in part[:at] if one.kind == TokenKind.NAME]
        is_type = bool(words) and words[0] in ("typename", "class")
        default = spell(part[at + 1 :])
        found.append(
            TemplateParameter(name=names[-1] if names else "", is_type=is_type, default=default)
        )
    return tuple(found), head[end:]


def _parameter_list(head: Sequence[Token]) -> int | None:
    """Return the index of the parenthesis that opens a function's parameters."""
    at = 0
    while at < len(head):
        text = head[at].text
        if text == "(":
            named = at > 0 and head[at - 1].kind == TokenKind.NAME
            if named and head[at - 1].text not in _NOT_NAMES:
                return at
            at = closing(head, at)
        at += 1
    return None


def _without_attributes(tokens: Sequence[Token]) -> list[Token]:
    left: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1].text if at + 1 < len(tokens) else ""
        if token.text in _ATTRIBUTES and following == "(":
            at = closing(tokens, at + 1)
        elif token.text == "[" and following == "[":
            at = closing(tokens, at)
        else:
            left.append(token)
        at += 1
    return left


def read_declared(tokens: Sequence[Token], number: int = 0) -> Declared:
    """Read one declaration: of a parameter, a member or an alias.

    A parameter without a name gets one from its `number`.
    """
    shown = re.sub(r" ?([*&]+) ?", r"\1 ", re.sub(r" ?([<>]+) ?", r"\1", spell(tokens))).strip()
    words = [one.text for one in tokens]
    at = words.index("=") if "=" in words else len(words)
    default = spell(tokens[at + 1 :])
    plain = [one for one in _without_attributes(tokens[:at]) if one.text not in _QUALIFIERS]
    arrays = sum(1 for one in plain if one.text == "[")
    first = next((i for i, one in enumerate(plain) if one.text == "["), len(plain))
    plain = plain[:first]
    name = ""
    if len(plain) > 1 and plain[-1].kind == TokenKind.NAME and not _is_type_end(plain):
        name = plain[-1].text
        plain = plain[:-1]
    pointers = next((i for i, one in enumerate(plain) if one.text in ("*", "&", "&&")), len(plain))
    base = plain[:pointers]
    behind = [one.text for one in plain[pointers:]]
    return Declared(
        name=name or f"argument_{number}",
        ctype=spell([one for one in base if one.text != "const"]),
        pointers=behind.count("*") + arrays,
        const=any(one.text == "const" for one in base),
        reference="&" in behind or "&&" in behind,
        default=default,
        shown=shown,
    )


_TYPE_WORDS = frozenset({
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned",
    "size_t", "const",
})  # fmt: skip


def _is_type_end(tokens: Sequence[Token]) -> bool:
    """Return whether the last word belongs to the type: `unsigned int`, without a name."""
    return tokens[-1].text in _TYPE_WORDS or tokens[-2].text == "::"


def _beside(first: Declared, tokens: Sequence[Token]) -> Declared:
    """Read a further declarator, as `b` of `float a, *b`."""
    words = [one.text for one in tokens if one.text not in _QUALIFIERS]
    names = [word for word in words if word.isidentifier() and word != "const"]
    return Declared(
        name=names[0] if names else "",
        ctype=first.ctype,
        pointers=words.count("*") + words.count("["),
        const=first.const,
        shown=f"{first.ctype} {spell(tokens)}",
    )


def _launches(function: DefinedFunction) -> Iterator[Launch]:
    body = function.body
    for at, token in enumerate(body):
        if token.text != "<<<":
            continue
        begin, template = _launched(body, at)
        shut = next((i for i in range(at, len(body)) if body[i].text == ">>>"), None)
        if begin is None or shut is None or shut + 1 >= len(body) or body[shut + 1].text != "(":
            continue
        end = closing(body, shut + 1)
        yield Launch(
            kernel=body[begin].text,
            template=template,
            configuration=tuple(split_at_commas(body[at + 1 : shut], angles=False)),
            passed=tuple(split_at_commas(body[shut + 2 : end], angles=False)),
            within=function,
            at=begin,
        )


def _launched(body: Sequence[Token], at: int) -> tuple[int | None, tuple[str, ...]]:
    """Return the index of the kernel's name before the `<<<` at `at`, and template arguments."""
    last = at - 1
    if last < 0 or body[last].kind == TokenKind.NAME:
        return (last if last >= 0 else None), ()
    for begin in range(last, max(last - 200, 0), -1):
        if body[begin].text == "<" and closing_angle(body[: last + 1], begin) == last + 1:
            parts = split_at_commas(_inside(body[begin : last + 1]))
            return begin - 1, tuple(spell(one) for one in parts)
    return None, ()
