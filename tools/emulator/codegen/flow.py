"""Basic blocks of a flattened kernel, numbered in layout order.

A warp collective stands first in its block, so that lanes can wait there for the others; a block
barrier stands last, so that lanes go on in the next block. Before instructions on matrices, which
a whole warp executes together, it meets once in a block: nothing parts its lanes until that ends.
"""

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from cuda_llm.tools.emulator.ops.tensor import ALIGNED, is_tensor
from cuda_llm.tools.emulator.ptx.module import (
    Function,
    Guard,
    Instruction,
    Label,
    Loc,
    Reg,
    Statement,
    Target,
    Vector,
)

LEAVE = -1
"""Target of a branch to a block that does nothing but return."""


@dataclass(frozen=True)
class Jump:
    """Block end after which every lane continues at the block `target`."""

    target: int


@dataclass(frozen=True)
class GuardedBranch:
    """Lanes of the guard go to `target`, the others to `otherwise`."""

    guard: Guard
    target: int
    otherwise: int
    loc: Loc | None = None


@dataclass(frozen=True)
class Switch:
    """Each lane goes to the block its index names."""

    index: Reg
    targets: tuple[int, ...]
    loc: Loc | None = None


@dataclass(frozen=True)
class Barrier:
    """A block barrier; lanes go on at `target`."""

    instruction: Instruction
    target: int


BlockEnd: TypeAlias = Jump | GuardedBranch | Switch | Barrier


@dataclass(frozen=True)
class FlowBlock:
    """Straight-line instructions and how they end."""

    body: tuple[Instruction, ...]
    end: BlockEnd


def is_collective(opcode: tuple[str, ...]) -> bool:
    """Return whether lanes execute an operation together: of a member mask, or as they come."""
    if opcode[0] in {"shfl", "vote", "match", "redux", "elect"}:
        return "sync" in opcode
    if opcode[0] in {"activemask", ALIGNED}:
        return True
    if opcode[:3] == ("bar", "warp", "sync"):
        return True
    return waits_for_cluster(opcode)


def waits_for_cluster(opcode: tuple[str, ...]) -> bool:
    """Return whether lanes may have to come again until the whole cluster has arrived."""
    return opcode[:2] == ("barrier", "cluster") and "wait" in opcode


def is_barrier(opcode: tuple[str, ...]) -> bool:
    """Return whether an instruction is a barrier of a block, not of a warp or cluster."""
    return opcode[0] in {"bar", "barrier"} and opcode[1] not in {"warp", "cluster"}


def blocks_of(function: Function) -> tuple[FlowBlock, ...]:
    """Cut a function without calls into basic blocks that can be reached."""
    drafts = _Cutter(function).run()
    return _number(_reachable(drafts), drafts)


@dataclass
class _Draft:
    """A block whose targets are still labels or draft numbers."""

    body: list[Instruction] = field(default_factory=list)
    end: Instruction | None = None
    labels: list[str] = field(default_factory=list)
    whole: bool = False
    """The whole warp has met in it."""


class _Cutter:
    def __init__(self, function: Function) -> None:
        self._statements = _without_guards(function.body)
        self._used = {
            label.name
            for statement in self._statements
            if isinstance(statement, Instruction)
            for label in _labels(statement)
        }

    def run(self) -> list[_Draft]:
        drafts = [_Draft()]
        for statement in self._statements:
            current = drafts[-1]
            if isinstance(statement, Target):
                if statement.name in self._used:
                    if current.body or current.end:
                        drafts.append(_Draft())
                    drafts[-1].labels.append(statement.name)
                continue
            assert isinstance(statement, Instruction)
            if current.end is not None:
                drafts.append(current := _Draft())
            needs_warp = is_tensor(statement.opcode) and not current.whole
            if (is_collective(statement.opcode) or needs_warp) and current.body:
                drafts.append(current := _Draft())
            if needs_warp:
                opcode = (ALIGNED, *statement.opcode)
                current.body.append(replace(statement, opcode=opcode, operands=(), negated=()))
                current.whole = True
            if _ends(statement):
                current.end = statement
                result = _barrier_result(statement)
                if result is not None:
                    drafts.append(_Draft(body=[result]))
                    drafts.append(_Draft())
            else:
                current.body.append(statement)
        return drafts


def _labels(instruction: Instruction) -> list[Label]:
    found: list[Label] = []
    for operand in instruction.operands:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        found.extend(item for item in items if isinstance(item, Label))
    return found


def _ends(instruction: Instruction) -> bool:
    return instruction.opcode[0] in {"bra", "brx", "ret", "exit"} or is_barrier(instruction.opcode)


def _barrier_result(barrier: Instruction) -> Instruction | None:
    """Make the read of a reducing barrier's result, once its lanes continue."""
    if "red" not in barrier.opcode:
        return None
    kind = barrier.opcode[-1]
    return replace(barrier, opcode=("barrier_result", kind), operands=barrier.operands[:1])


def _without_guards(body: tuple[Statement, ...]) -> list[Statement]:
    """Replace guards of barriers, collectives and jump tables by branches around them."""
    statements: list[Statement] = []
    for number, statement in enumerate(body):
        if (
            isinstance(statement, Instruction)
            and statement.guard is not None
            and (
                is_barrier(statement.opcode)
                or is_collective(statement.opcode)
                or is_tensor(statement.opcode)
                or statement.opcode[0] == "brx"
            )
        ):
            over = f"over~{number}"
            guard = Guard(statement.guard.reg, not statement.guard.negated)
            branch = replace(
                statement, opcode=("bra",), operands=(Label(over),), guard=guard, negated=()
            )
            statements += [branch, replace(statement, guard=None), Target(over)]
        else:
            statements.append(statement)
    return statements


def _successors(drafts: list[_Draft], places: dict[str, int], index: int) -> list[int]:
    """Return indices of the drafts that may follow a draft; the next draft in order comes last."""
    end = drafts[index].end
    if end is None:
        return [index + 1]
    if is_barrier(end.opcode):
        return [index + 1]
    found = [places[label.name] for label in _labels(end)]
    if end.guard is not None:
        found.append(index + 1)
    return found


def _places(drafts: list[_Draft]) -> dict[str, int]:
    return {label: index for index, draft in enumerate(drafts) for label in draft.labels}


def _reachable(drafts: list[_Draft]) -> list[int]:
    places = _places(drafts)
    seen = {0}
    work = [0]
    while work:
        for successor in _successors(drafts, places, work.pop()):
            if successor < len(drafts) and successor not in seen:
                seen.add(successor)
                work.append(successor)
    return sorted(seen)


def _number(kept: list[int], drafts: list[_Draft]) -> tuple[FlowBlock, ...]:
    """Give blocks their final numbers. A bare `ret` needs none: branches to it leave at once."""
    places = _places(drafts)
    numbers = {LEAVE: LEAVE, len(drafts): LEAVE}
    for index in kept:
        draft = drafts[index]
        before = drafts[index - 1].end if index > 0 else draft.end
        after_barrier = before is not None and is_barrier(before.opcode)
        if index > 0 and not after_barrier and _only_returns(draft):
            numbers[index] = LEAVE
    order = [index for index in kept if index not in numbers]
    numbers.update((index, number) for number, index in enumerate(order))
    return tuple(_block(drafts[index], index, places, numbers) for index in order)


def _only_returns(draft: _Draft) -> bool:
    end = draft.end
    if draft.body or end is None or end.guard is not None:
        return False
    return end.opcode[0] in {"ret", "exit"}


def _block(draft: _Draft, index: int, places: dict[str, int], numbers: dict[int, int]) -> FlowBlock:
    following = numbers.get(index + 1, LEAVE)
    body = tuple(draft.body)
    end = draft.end
    if end is None:
        return FlowBlock(body, Jump(following))
    if is_barrier(end.opcode):
        return FlowBlock(body, Barrier(end, following))
    targets = tuple(numbers[places[label.name]] for label in _labels(end))
    if end.opcode[0] == "brx":
        assert isinstance(end.operands[0], Reg)
        return FlowBlock(body, Switch(end.operands[0], targets, end.loc))
    target = targets[0] if targets else LEAVE
    if end.guard is None:
        return FlowBlock(body, Jump(target))
    return FlowBlock(body, GuardedBranch(end.guard, target, following, end.loc))
