"""Direct calls replaced by the bodies of the functions called.

A call that cannot be inlined (indirect, recursive, unknown, too large) stays as an instruction
`call.NAME`, which coverage then refuses.
"""

from collections.abc import Mapping
from dataclasses import replace

from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Function,
    FunctionCall,
    Guard,
    Instruction,
    Label,
    Module,
    Operand,
    OperandPair,
    Reg,
    Statement,
    Symbol,
    Target,
    Variable,
    Vector,
)

MOST_STATEMENTS = 60_000
"""Beyond this a kernel is refused: g++ would take minutes."""

DEVICE_CALLS = frozenset({"vprintf", "__assertfail"})
"""Functions without a body that the runtime provides."""


def inline_calls(module: Module, entry: Function) -> Function:
    """Return `entry` with every call expanded; argument passing is left in the .param space."""
    functions = {function.name: function for function in module.functions}
    return _Inliner(functions, entry).run()


class _Inliner:
    def __init__(self, functions: Mapping[str, Function], entry: Function) -> None:
        self._functions = functions
        self._entry = entry
        self._registers = dict(entry.registers)
        self._variables = {variable.name: variable for variable in entry.variables}
        self._body: list[Statement] = []
        self._calls = 0

    def run(self) -> Function:
        self._expand(self._entry.body, (self._entry.name,))
        return replace(
            self._entry,
            registers=self._registers,
            variables=tuple(self._variables.values()),
            body=tuple(self._body),
        )

    def _expand(self, body: tuple[Statement, ...], stack: tuple[str, ...]) -> None:
        for statement in body:
            if isinstance(statement, FunctionCall):
                self._call(statement, stack)
            else:
                self._body.append(statement)

    def _call(self, call: FunctionCall, stack: tuple[str, ...]) -> None:
        name = call.target if isinstance(call.target, str) else "indirect"
        callee = self._functions.get(name)
        if callee is None or name in stack or len(self._body) > MOST_STATEMENTS:
            self._keep(call, "recursive" if name in stack else name)
            return
        self._calls += 1
        copy = _Copy(callee, call, f"~{self._calls}")
        after = f"after{copy.suffix}"
        if call.guard is not None:
            over = Guard(call.guard.reg, not call.guard.negated)
            self._branch(call, after, over)
        self._registers.update(copy.registers())
        self._variables.update((variable.name, variable) for variable in copy.variables())
        self._expand(copy.body(after), (*stack, name))
        self._body.append(Target(after))

    def _branch(self, call: FunctionCall, label: str, guard: Guard | None) -> None:
        self._body.append(
            Instruction(("bra",), (Label(label),), guard, (), call.loc, call.ptx_line)
        )

    def _keep(self, call: FunctionCall, name: str) -> None:
        operands = tuple(Symbol(n) for n in (*call.results, *call.arguments))
        self._body.append(
            Instruction(("call", name), operands, call.guard, (), call.loc, call.ptx_line)
        )


class _Copy:
    """A copy of a callee with unique names, its parameters bound to the caller's operands."""

    def __init__(self, callee: Function, call: FunctionCall, suffix: str) -> None:
        self.suffix = suffix
        self._callee = callee
        self._bound = {
            formal.name: actual
            for formal, actual in zip(
                (*callee.params, *callee.results), (*call.arguments, *call.results), strict=False
            )
        }
        # Shared variables belong to the block, however often the function is called.
        self._own = {v.name for v in callee.variables if v.space in {"local", "param"}}

    def registers(self) -> dict[str, str]:
        return {name + self.suffix: kind for name, kind in self._callee.registers.items()}

    def variables(self) -> list[Variable]:
        return [replace(v, name=self._variable(v.name)) for v in self._callee.variables]

    def body(self, after: str) -> tuple[Statement, ...]:
        """Return the callee's statements; returning becomes a branch to `after`."""
        return tuple(self._statement(statement, after) for statement in self._callee.body)

    def _variable(self, name: str) -> str:
        if name in self._own:
            return name + self.suffix
        return self._bound.get(name, name)

    def _statement(self, statement: Statement, after: str) -> Statement:
        if isinstance(statement, Target):
            return Target(statement.name + self.suffix)
        guard = statement.guard and Guard(self._reg(statement.guard.reg), statement.guard.negated)
        if isinstance(statement, FunctionCall):
            target = statement.target
            return replace(
                statement,
                target=self._reg(target) if isinstance(target, Reg) else target,
                results=tuple(self._variable(name) for name in statement.results),
                arguments=tuple(self._variable(name) for name in statement.arguments),
                guard=guard,
            )
        if statement.opcode[0] == "ret":
            return replace(statement, opcode=("bra",), operands=(Label(after),), guard=guard)
        operands = tuple(self._operand(operand) for operand in statement.operands)
        return replace(statement, operands=operands, guard=guard)

    def _reg(self, reg: Reg) -> Reg:
        return Reg(reg.name + self.suffix)

    def _operand(self, operand: Operand) -> Operand:
        match operand:
            case Reg():
                return self._reg(operand)
            case Symbol(name, offset):
                return Symbol(self._variable(name), offset)
            case Address(base, offset, coordinates):
                renamed = self._operand(base)
                assert isinstance(renamed, Reg | Symbol) or renamed is base
                places = tuple(one and self._operand(one) for one in coordinates)
                return Address(renamed, offset, places)
            case Label(name):
                return Label(name + self.suffix)
            case Vector(items):
                return Vector(tuple(item and self._operand(item) for item in items))
            case OperandPair(first, second):
                return OperandPair(first and self._operand(first), second and self._operand(second))
            case _:
                return operand
