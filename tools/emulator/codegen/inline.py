"""Calls replaced by the bodies of the functions called.

A call through a pointer becomes a choice: `call.choose` finds which function is meant, of those
whose address the module takes and which take and return values of the same sizes, and a jump table
leads to a copy of its body.

A call that cannot be inlined (recursive, unknown, too large) stays as an instruction `call.NAME`,
which coverage then refuses. Whether a call through a pointer is recursive only the launch knows:
`call.recursive.indirect` is a fault where it is executed.
"""

from dataclasses import dataclass, replace

from cuda_llm.tools.emulator.codegen.functions import NumberedFunctions
from cuda_llm.tools.emulator.ptx.literals import BYTES
from cuda_llm.tools.emulator.ptx.module import (
    Address,
    Function,
    FunctionCall,
    Guard,
    Imm,
    Instruction,
    Label,
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


def inline_calls(numbered: NumberedFunctions, entry: Function) -> Function:
    """Return `entry` with every call expanded; argument passing is left in the .param space."""
    return _Inliner(numbered, entry).run()


@dataclass(frozen=True)
class _CallPath:
    """The functions that a statement is inlined through."""

    above: frozenset[str]
    """Those before the last call through a pointer."""
    direct: frozenset[str]
    """Those from there on, the last one's own among them."""


class _Inliner:
    def __init__(self, numbered: NumberedFunctions, entry: Function) -> None:
        self._functions = {function.name: function for function in numbered.module.functions}
        self._addresses = numbered.addresses
        self._entry = entry
        self._registers = dict(entry.registers)
        self._variables = {variable.name: variable for variable in entry.variables}
        self._body: list[Statement] = []
        self._calls = 0

    def run(self) -> Function:
        self._expand(self._entry.body, _CallPath(frozenset(), frozenset({self._entry.name})))
        return replace(
            self._entry,
            registers=self._registers,
            variables=tuple(self._variables.values()),
            body=tuple(self._body),
        )

    def _expand(self, body: tuple[Statement, ...], path: _CallPath) -> None:
        for statement in body:
            if not isinstance(statement, FunctionCall):
                self._body.append(statement)
            elif isinstance(statement.target, Reg):
                self._call_through(statement, statement.target, path)
            else:
                self._call(statement, statement.target, path)

    def _call(self, call: FunctionCall, name: str, path: _CallPath) -> None:
        callee = self._functions.get(name)
        if name in path.above:
            self._append(call, ("call", "recursive", "indirect"))
            return
        if callee is None or name in path.direct or len(self._body) > MOST_STATEMENTS:
            self._keep(call, "recursive" if name in path.direct else name)
            return
        suffix, after = self._begin(call)
        self._enter(callee, call, suffix, after, _CallPath(path.above, path.direct | {name}))
        self._body.append(Target(after))

    def _call_through(self, call: FunctionCall, pointer: Reg, path: _CallPath) -> None:
        if len(self._body) > MOST_STATEMENTS:
            self._keep(call, "indirect")
            return
        known = [self._functions[name] for name in self._addresses]
        callees = [one for one in known if _sizes(one) == self._sizes_of(call)]
        suffix, after = self._begin(call)
        plain = replace(call, guard=None)
        index = Reg(f"%callee{suffix}")
        self._registers[index.name] = "u32"
        addresses = (Imm(self._addresses[one.name]) for one in callees)
        self._append(plain, ("call", "choose"), index, pointer, *addresses)
        labels = [Label(f"callee{number}{suffix}") for number in range(len(callees))]
        if labels:
            self._append(plain, ("brx", "idx"), index, Vector(tuple(labels)))
        above = path.above | path.direct
        for number, (callee, label) in enumerate(zip(callees, labels, strict=True)):
            self._body.append(Target(label.name))
            if callee.name in above:
                self._append(plain, ("call", "recursive", "indirect"))
            else:
                inside = _CallPath(above, frozenset({callee.name}))
                self._enter(callee, plain, f"{suffix}.{number}", after, inside)
            self._append(plain, ("bra",), Label(after))
        self._body.append(Target(after))

    def _begin(self, call: FunctionCall) -> tuple[str, str]:
        """Return a call's suffix for names, and its label for what follows.

        A call that is guarded gets a branch around it.
        """
        self._calls += 1
        suffix = f"~{self._calls}"
        after = f"after{suffix}"
        if call.guard is not None:
            over = Guard(call.guard.reg, not call.guard.negated)
            self._append(replace(call, guard=over), ("bra",), Label(after))
        return suffix, after

    def _enter(
        self, callee: Function, call: FunctionCall, suffix: str, after: str, path: _CallPath
    ) -> None:
        """Append a copy of a function's body, which ends with a branch to `after`."""
        copy = _Copy(callee, call, suffix)
        self._registers.update(copy.registers())
        self._variables.update((variable.name, variable) for variable in copy.variables())
        self._expand(copy.body(after), path)

    def _sizes_of(self, call: FunctionCall) -> tuple[tuple[int, ...], tuple[int, ...]]:
        def size(name: str) -> int:
            variable = self._variables.get(name)
            return variable.size if variable else BYTES[self._registers[name]]

        return tuple(map(size, call.arguments)), tuple(map(size, call.results))

    def _append(self, call: FunctionCall, opcode: tuple[str, ...], *operands: Operand) -> None:
        """Append an instruction that stands for part of a call, under the call's guard."""
        self._body.append(Instruction(opcode, operands, call.guard, (), call.loc, call.ptx_line))

    def _keep(self, call: FunctionCall, name: str) -> None:
        self._append(call, ("call", name), *(Symbol(n) for n in (*call.results, *call.arguments)))


def _sizes(function: Function) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes in bytes of what a function takes, and of what it returns."""
    return tuple(v.size for v in function.params), tuple(v.size for v in function.results)


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
