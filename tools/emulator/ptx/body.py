"""Parses the statements of a function body, each with its line of the user's file."""

from dataclasses import dataclass, field, replace

from cuda_llm.tools.emulator.ptx.declarations import LINKAGE, SPACES, register_names, variable
from cuda_llm.tools.emulator.ptx.literals import Scope
from cuda_llm.tools.emulator.ptx.module import (
    FunctionCall,
    Guard,
    Instruction,
    Label,
    Loc,
    Operand,
    Reg,
    Statement,
    Symbol,
    Target,
    Variable,
    Vector,
)
from cuda_llm.tools.emulator.ptx.operands import Operands
from cuda_llm.tools.emulator.ptx.tokens import Cursor

LinePlace = tuple[int, int, int]
"""File number, line, column, as `.loc` gives them."""


class Locations:
    """Follows the `.loc` directives of a function.

    A place inside a header is reported as the innermost line of the user's file that included the
    header.
    """

    def __init__(self, files: dict[int, str], user_file: str) -> None:
        self._names = {
            number: user_file
            for number, path in files.items()
            if path.rsplit("/", 1)[-1] == user_file.rsplit("/", 1)[-1]
        }
        if not self._names:
            self._names = {n: path for n, path in files.items() if "/include/" not in path}
        self._parents: dict[LinePlace, LinePlace] = {}
        self._last: Loc | None = None

    def at(self, place: LinePlace, inlined_at: LinePlace | None) -> Loc | None:
        """Return the user's line for a directive, or the previous line where the directive has
        none."""
        if inlined_at is None:
            self._parents.pop(place, None)
        else:
            self._parents[place] = inlined_at
        seen: set[LinePlace] = set()
        chain: list[Loc] = []
        step: LinePlace | None = place
        while step is not None and step not in seen:
            name = self._names.get(step[0])
            if name is not None and step[1] > 0 and Loc(name, step[1]) not in chain:
                chain.append(Loc(name, step[1]))
            seen.add(step)
            step = self._parents.get(step)
        if chain:
            self._last = replace(chain[0], callers=tuple(chain[1:]))
        return self._last


@dataclass
class Body:
    """Registers, variables and statements of a function body."""

    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)


def read_body(
    cursor: Cursor,
    parameters: tuple[Variable, ...],
    module_names: dict[str, Symbol],
    locations: Locations,
) -> Body:
    """Read a body after its `{`, up to and past its `}`."""
    reader = _Reader(cursor, module_names, locations)
    for parameter in parameters:
        reader.scope.declare_variable(parameter.name)
    reader.read()
    return reader.body


class _Reader:
    def __init__(
        self, cursor: Cursor, module_names: dict[str, Symbol], locations: Locations
    ) -> None:
        self.body = Body()
        self.scope = Scope(0)
        self._cursor = cursor
        self._operands = Operands(cursor, module_names)
        self._locations = locations
        self._scopes = [self.scope]
        self._tables: dict[str, tuple[str, ...]] = {}
        self._loc: Loc | None = None

    def read(self) -> None:
        cursor = self._cursor
        while True:
            word = cursor.take()
            if word == "{":
                self.scope = Scope(len(self._scopes), self.scope)
                self._scopes.append(self.scope)
            elif word == "}":
                if self.scope.parent is None:
                    break
                self.scope = self.scope.parent
            elif word == "@":
                self._guarded()
            elif word[0] == ".":
                self._directive(word)
            elif cursor.peek() == ":":
                cursor.take()
                self._label(word)
            elif word != ";":
                self._instruction(word, None)
        self.body.statements = [self._settle(s) for s in self.body.statements]

    def _directive(self, word: str) -> None:
        cursor = self._cursor
        if word == ".loc":
            self._location()
        elif word == ".reg":
            kind, names = register_names(cursor)
            for name in names:
                self.body.registers[self.scope.declare_register(name)] = kind
        elif word in SPACES or word in LINKAGE:
            external = word == ".extern"
            while word in LINKAGE:
                word = cursor.take()
            self.body.variables.extend(
                variable(cursor, word[1:], external=external, rename=self.scope.declare_variable)
            )
            cursor.expect(";")
        elif word in {".pragma", ".callprototype"}:
            cursor.skip_past(";")
        else:
            raise cursor.error(f"unexpected {word} in a function")

    def _location(self) -> None:
        cursor = self._cursor
        place = (cursor.number(), cursor.number(), cursor.number())
        inlined_at = None
        while cursor.accept(","):
            word = cursor.take()
            if word == "function_name":
                cursor.take()
                if cursor.accept("+"):
                    cursor.number()
            elif word == "inlined_at":
                inlined_at = (cursor.number(), cursor.number(), cursor.number())
        self._loc = self._locations.at(place, inlined_at)

    def _label(self, name: str) -> None:
        cursor = self._cursor
        if cursor.peek() == ".branchtargets":
            cursor.take()
            targets = [cursor.take()]
            while cursor.accept(","):
                targets.append(cursor.take())
            cursor.expect(";")
            self._tables[self.scope.unique(name)] = tuple(targets)
            self.scope.labels.add(name)
        elif cursor.peek() in {".callprototype", ".calltargets"}:
            cursor.skip_past(";")
            self.scope.labels.add(name)
        else:
            self.scope.labels.add(name)
            self.body.statements.append(Target(self.scope.unique(name)))

    def _guarded(self) -> None:
        cursor = self._cursor
        negated = cursor.accept("!")
        reg = self._operands.one(self.scope)
        if not isinstance(reg, Reg):
            raise cursor.error("a guard that is no register")
        self._instruction(cursor.take(), Guard(reg, negated))

    def _instruction(self, word: str, guard: Guard | None) -> None:
        line = self._cursor.tokens.line(self._cursor.index - 1)
        opcode = tuple(word.split("."))
        if opcode[0] == "call":
            self._call(guard, line)
            return
        operands, negated = self._operands.list(self.scope)
        self.body.statements.append(Instruction(opcode, operands, guard, negated, self._loc, line))

    def _call(self, guard: Guard | None, line: int) -> None:
        cursor = self._cursor
        results = self._names_in_parentheses() if cursor.peek() == "(" else ()
        if results:
            cursor.expect(",")
        text = cursor.take()
        found = self.scope.find(text)
        target: str | Reg = found if isinstance(found, Reg) else text
        arguments: tuple[str, ...] = ()
        if cursor.accept(",") and cursor.peek() == "(":
            arguments = self._names_in_parentheses()
        if not cursor.accept(";"):
            cursor.skip_past(";")
        self.body.statements.append(
            FunctionCall(target, results, arguments, guard, self._loc, line)
        )

    def _names_in_parentheses(self) -> tuple[str, ...]:
        cursor = self._cursor
        cursor.expect("(")
        names: list[str] = []
        while not cursor.accept(")"):
            operand = self._operands.one(self.scope)
            if not isinstance(operand, Symbol | Reg):
                raise cursor.error("unreadable argument of a call")
            names.append(operand.name)
            cursor.accept(",")
        return tuple(names)

    def _settle(self, statement: Statement) -> Statement:
        """Give labels their unique names and branch tables their targets."""
        if not isinstance(statement, Instruction) or statement.opcode[0] not in {"bra", "brx"}:
            if isinstance(statement, Instruction) and any(
                isinstance(operand, Label) for operand in statement.operands
            ):
                operands = tuple(self._plain(operand) for operand in statement.operands)
                return replace(statement, operands=operands)
            return statement
        operands = tuple(self._branch_target(operand) for operand in statement.operands)
        return replace(statement, operands=operands)

    def _plain(self, operand: Operand) -> Operand:
        """Return a name without declaration, outside a branch: a symbol the translator refuses."""
        return Symbol(operand.name.split("\n")[0]) if isinstance(operand, Label) else operand

    def _branch_target(self, operand: Operand) -> Operand:
        if not isinstance(operand, Label):
            return operand
        name, _, number = operand.name.partition("\n")
        scope = self._scopes[int(number)]
        unique = scope.label(name)
        if unique in self._tables:
            return Vector(tuple(Label(scope.label(target)) for target in self._tables[unique]))
        return Label(unique)
