"""A segment as a C++ loop over the lanes."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, Lane, SpellLanes
from cuda_llm.tools.emulator.codegen.segments import Segment
from cuda_llm.tools.emulator.ptx.module import Guard


@dataclass(frozen=True)
class Arrays:
    """Spelling of the lane arrays of registers: their values, their undefined bits, and where those
    come from. Only kernels that track undefined values have the last two."""

    values: SpellLanes
    bits: SpellLanes
    origins: SpellLanes


def write_segment(
    kernel: KernelDraft, segment: Segment, arrays: Arrays, crossing: frozenset[str]
) -> list[str]:
    """Return the C++ lines of a loop over lanes. `crossing` registers keep their values in lanes
    outside the mask."""
    if len(segment.lanes) == 1 and not segment.lanes[0].vectorises:
        return _lane_by_lane(kernel, segment, arrays)
    lines = [f"const auto {name} = {text};" for name, text in _uniforms(segment)]
    placed = _placed(kernel, segment.stores, arrays)
    masks = [(name, place, register) for name, place, register, mask in placed if mask]
    lines += [f"emu::Mask n_{name} = 0;" for name, _, _ in masks]
    # Lanes access disjoint elements, which g++ cannot see through the pointers.
    lines += ["#pragma GCC ivdep", "for (int i = 0; i < emu::kLanes; ++i) {"]
    lines += _body(kernel, segment, arrays)
    lines += [f"n_{name} |= emu::Mask({name}) << i;" for name, _, _ in masks]
    for name, place, register, mask in placed:
        if mask:
            continue
        lines.append(
            f"{place}[i] = m >> i & 1 ? {name} : {place}[i];"
            if register in crossing
            else f"{place}[i] = {name};"
        )
    lines.append("}")
    for name, place, register in masks:
        lines.append(
            f"emu::put({place}, m, n_{name});" if register in crossing else f"{place} = n_{name};"
        )
    return lines


def _placed(
    kernel: KernelDraft, registers: Iterable[str], arrays: Arrays
) -> list[tuple[str, str, str, bool]]:
    """Return scalar, array, register, and whether the array is a mask, for all that is kept of
    registers."""
    found: list[tuple[str, str, str, bool]] = []
    for register in sorted(registers):
        mask = kernel.is_predicate(register)
        found.append((kernel.name(register), arrays.values(register), register, mask))
        if kernel.tracks:
            found.append((kernel.bits_name(register), arrays.bits(register), register, mask))
            found.append((kernel.origin_name(register), arrays.origins(register), register, False))
    return found


def _uniforms(segment: Segment) -> list[tuple[str, str]]:
    return [uniform for lane in segment.lanes for uniform in lane.uniforms]


def _body(kernel: KernelDraft, segment: Segment, arrays: Arrays) -> list[str]:
    """Each register is read once, at its first use, and lives as a scalar from then on."""
    lines: list[str] = []
    known: set[str] = set()
    for lane in segment.lanes:
        for register in _needs(lane):
            if register not in known:
                known.add(register)
                lines += _declare(kernel, register, arrays)
        lines += (
            _assign_tracked(kernel, lane, known) if kernel.tracks else _assign(kernel, lane, known)
        )
    return lines


def _needs(lane: Lane) -> tuple[str, ...]:
    if lane.guard is None:
        return lane.reads
    return (*lane.reads, lane.guard.reg.name, *lane.writes)


def _declare(kernel: KernelDraft, register: str, arrays: Arrays) -> list[str]:
    return [
        f"{'uint32_t' if name == kernel.origin_name(register) else kernel.raw(register)} {name} = "
        f"{f'({place} >> i & 1)' if mask else f'{place}[i]'};"
        for name, place, _, mask in _placed(kernel, (register,), arrays)
    ]


def _assign_tracked(kernel: KernelDraft, lane: Lane, known: set[str]) -> list[str]:
    """Assign results, their undefined bits, and where those come from.

    Everything is computed before anything is assigned, because a target may also be a source.
    """
    names: list[str] = []
    lines: list[str] = []
    guard = lane.guard.reg.name if lane.guard is not None else None
    test = _test(kernel, lane.guard) if lane.guard is not None else ""
    bits = {r: text for (r, _), text in zip(lane.results, lane.undefined, strict=False)}
    origin = _origin(kernel, lane.reads)
    every = " | ".join(f"uint64_t({kernel.bits_name(r)})" for r in dict.fromkeys(lane.reads))
    if guard is not None:
        # Not all of the guard's own place is known where the guard is one of the targets.
        names += [f"const bool on{{{test}}}, off{{{kernel.bits_name(guard)}}};"]
    for number, (register, text) in enumerate(lane.results):
        raw = kernel.raw(register)
        undefined = bits.get(register) or f"emu::undefined::any<{raw}>(({every or 0}) != 0)"
        where = origin
        if guard is not None:
            kept, kept_origin = kernel.bits_name(register), kernel.origin_name(register)
            undefined = f"off ? emu::undefined::any<{raw}>(true) : on ? {raw}({undefined}) : {kept}"
            where = f"off ? {kernel.origin_name(guard)} : on ? {origin} : {kept_origin}"
            text = f"on ? {text} : {kernel.name(register)}"
        lines.append(f"const {raw} x{number} = {text};")
        lines.append(f"const {raw} y{number} = {undefined};")
        lines.append(f"const uint32_t z{number} = {where};")
    declared = []
    for number, (register, _) in enumerate(lane.results):
        places = (kernel.name(register), kernel.bits_name(register), kernel.origin_name(register))
        if register not in known:
            raw = kernel.raw(register)
            declared += [f"{raw} {places[0]}; {raw} {places[1]}; uint32_t {places[2]};"]
            known.add(register)
        lines += [
            f"{place} = {letter}{number};" for place, letter in zip(places, "xyz", strict=True)
        ]
    return [*declared, "{", *names, *lines, "}"]


def _origin(kernel: KernelDraft, reads: Iterable[str]) -> str:
    """Return C++ of where the first undefined register of `reads` comes from."""
    registers = list(dict.fromkeys(reads))
    if not registers:
        return "~0u"
    chosen = [f"{kernel.bits_name(r)} ? {kernel.origin_name(r)} : " for r in registers[:-1]]
    return f"({''.join(chosen)}{kernel.origin_name(registers[-1])})"


def _assign(kernel: KernelDraft, lane: Lane, known: set[str]) -> list[str]:
    results = lane.results
    if len(results) > 1:
        # A target may also be a source: compute everything before assigning anything.
        lines = [f"const {kernel.raw(r)} x{n} = {text};" for n, (r, text) in enumerate(results)]
        results = tuple((r, f"x{n}") for n, (r, _) in enumerate(results))
        names = [f"{kernel.raw(r)} {kernel.name(r)};" for r, _ in results if r not in known]
        known.update(r for r, _ in results)
        test = ""
        if lane.guard is not None:
            # The guard may be a target as well.
            test = "on"
            lines.append(f"const bool on = {_test(kernel, lane.guard)};")
        stores = [_store(kernel, r, text, test, declared=True) for r, text in results]
        return [*names, "{", *lines, *stores, "}"]
    lines = []
    test = _test(kernel, lane.guard) if lane.guard is not None else ""
    for register, text in results:
        lines.append(_store(kernel, register, text, test, declared=register in known))
        known.add(register)
    return lines


def _test(kernel: KernelDraft, guard: Guard) -> str:
    return f"{'!' if guard.negated else ''}{kernel.name(guard.reg.name)}"


def _store(kernel: KernelDraft, register: str, text: str, test: str, *, declared: bool) -> str:
    """Return a C++ assignment of `text`, conditional on `test` unless `test` is empty."""
    name = kernel.name(register)
    if test:
        text = f"{test} ? {text} : {name}"
    return f"{name} = {text};" if declared else f"{kernel.raw(register)} {name} = {text};"


def _lane_by_lane(kernel: KernelDraft, segment: Segment, arrays: Arrays) -> list[str]:
    """Write a loop that computes only lanes that take part, for what does not vectorise."""
    lane = segment.lanes[0]
    q = "m"
    plain = lane
    if lane.guard is not None and not kernel.tracks:
        q = f"m & {'~' if lane.guard.negated else ''}{arrays.values(lane.guard.reg.name)}"
        plain = replace(lane, guard=None)
    lines = [f"const auto {name} = {text};" for name, text in lane.uniforms]
    lines.append(f"for (emu::Mask rest = {q}; rest; rest &= rest - 1) {{")
    lines.append("const int i = __builtin_ctz(rest);")
    lines += _body(kernel, Segment((plain,)), arrays)
    for name, place, _, mask in _placed(kernel, segment.stores, arrays):
        if mask:
            lines.append(f"emu::put({place}, 1u << i, emu::Mask({name}) << i);")
        else:
            lines.append(f"{place}[i] = {name};")
    lines.append("}")
    return lines
