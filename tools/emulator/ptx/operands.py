"""Operands: `%r1`, `-4`, `[%rd1+16]`, `{%f1, _}`, `%r1|%p2`, `!%p1`."""

from cuda_llm.tools.emulator.ptx.literals import Scope, literal, minus
from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Imm,
    Label,
    Operand,
    OperandPair,
    Reg,
    Special,
    Symbol,
    Vector,
)
from cuda_llm.tools.emulator.ptx.tokens import Cursor


class Operands:
    """Parses the operands of a function. A name without declaration is taken for a label."""

    def __init__(self, cursor: Cursor, module_names: dict[str, Symbol]) -> None:
        self._cursor = cursor
        self._module_names = module_names

    def list(self, scope: Scope) -> tuple[tuple[Operand, ...], tuple[int, ...]]:
        """Read operands up to `;`, passing it. Returns them and which carry a `!`."""
        cursor = self._cursor
        operands: list[Operand] = []
        negated: list[int] = []
        if cursor.accept(";"):
            return (), ()
        while True:
            if cursor.accept("!"):
                negated.append(len(operands))
            operand = self.one(scope)
            if cursor.accept("|"):
                operand = OperandPair(operand, self.one(scope))
            operands.append(operand if operand is not None else Vector((None,)))
            if cursor.accept(";"):
                return tuple(operands), tuple(negated)
            cursor.expect(",")

    def one(self, scope: Scope) -> Operand | None:
        """Parse an operand; return None for `_`."""
        cursor = self._cursor
        text = cursor.take()
        found = scope.find(text)
        if found is not None:
            if type(found) is Symbol and cursor.peek() in {"+", "-"}:
                return Symbol(found.name, self._offset())
            return found
        if text == "[":
            return self._address(scope)
        if text == "{":
            return self._vector(scope)
        if text == "_":
            return None
        if text == "-":
            value = literal(cursor.take())
            if value is None:
                raise cursor.error("expected a number after `-`")
            return minus(value)
        value = literal(text)
        if value is not None:
            return value
        return self._name(text, scope)

    def _name(self, text: str, scope: Scope) -> Operand:
        if text[0] == "%":
            return Special(text)
        if text == "WARP_SZ":
            return Imm(32)
        if text in self._module_names:
            return Symbol(text, self._offset())
        if not (text[0].isalpha() or text[0] in "_$."):
            raise self._cursor.error(f"unexpected `{text}`")
        # Which block a label belongs to is known at the end of the function.
        return Label(f"{text}\n{scope.number}")

    def _offset(self) -> int:
        if self._cursor.peek() == "+":
            self._cursor.take()
            return self._cursor.number()
        return self._cursor.number() if self._cursor.peek() == "-" else 0

    def _address(self, scope: Scope) -> Operand:
        cursor = self._cursor
        base = self.one(scope)
        offset = self._offset()
        coordinates: tuple[Operand | None, ...] = ()
        if not cursor.accept("]"):
            if cursor.accept(",") and cursor.accept("{"):
                coordinates = self._vector(scope).items
            # Other texture queries are left out: these operations are refused.
            if not cursor.accept("]"):
                cursor.skip_past("]")
        if isinstance(base, Symbol):
            return Address(Symbol(base.name), base.offset + offset, coordinates)
        if isinstance(base, Label):
            return Address(Symbol(base.name.split("\n")[0]), offset, coordinates)
        if isinstance(base, Reg | Imm):
            return Address(base, offset, coordinates)
        raise cursor.error("unreadable address")

    def _vector(self, scope: Scope) -> Vector:
        cursor = self._cursor
        items: list[Operand | None] = []
        while not cursor.accept("}"):
            items.append(self.one(scope))
            cursor.accept(",")
        return Vector(tuple(items))
