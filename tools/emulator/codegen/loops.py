"""A segment as a C++ loop over the lanes."""

from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, Lane, SpellLanes
from cuda_llm.tools.emulator.codegen.segments import Segment
from cuda_llm.tools.emulator.ptx.module import Guard


def write_segment(
    kernel: KernelDraft, segment: Segment, array: SpellLanes, crossing: frozenset[str]
) -> list[str]:
    """Return the C++ lines of a loop over lanes. `crossing` registers keep their values in lanes
    outside the mask."""
    if len(segment.lanes) == 1 and not segment.lanes[0].vectorises:
        return _lane_by_lane(kernel, segment, array, crossing)
    lines = [f"const auto {name} = {text};" for name, text in _uniforms(segment)]
    masks = sorted(r for r in segment.stores if kernel.is_predicate(r))
    lines += [f"emu::Mask n_{kernel.name(r)} = 0;" for r in masks]
    # Lanes access disjoint elements, which g++ cannot see through the pointers.
    lines += ["#pragma GCC ivdep", "for (int i = 0; i < emu::kLanes; ++i) {"]
    lines += _body(kernel, segment, array)
    lines += [f"n_{kernel.name(r)} |= emu::Mask({kernel.name(r)}) << i;" for r in masks]
    for register in sorted(segment.stores - set(masks)):
        name, place = kernel.name(register), f"{array(register)}[i]"
        lines.append(
            f"{place} = m >> i & 1 ? {name} : {place};"
            if register in crossing
            else f"{place} = {name};"
        )
    lines.append("}")
    for register in masks:
        name = f"n_{kernel.name(register)}"
        lines.append(
            f"emu::put({array(register)}, m, {name});"
            if register in crossing
            else f"{array(register)} = {name};"
        )
    return lines


def _uniforms(segment: Segment) -> list[tuple[str, str]]:
    return [uniform for lane in segment.lanes for uniform in lane.uniforms]


def _body(kernel: KernelDraft, segment: Segment, array: SpellLanes) -> list[str]:
    """Each register is read once, at its first use, and lives as a scalar from then on."""
    lines: list[str] = []
    known: set[str] = set()
    for lane in segment.lanes:
        for register in _needs(lane):
            if register not in known:
                known.add(register)
                lines.append(_declare(kernel, register, array))
        lines += _assign(kernel, lane, known)
    return lines


def _needs(lane: Lane) -> tuple[str, ...]:
    if lane.guard is None:
        return lane.reads
    return (*lane.reads, lane.guard.reg.name, *lane.writes)


def _declare(kernel: KernelDraft, register: str, array: SpellLanes) -> str:
    value = (
        f"({array(register)} >> i & 1)"
        if kernel.is_predicate(register)
        else (f"{array(register)}[i]")
    )
    return f"{kernel.raw(register)} {kernel.name(register)} = {value};"


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


def _lane_by_lane(
    kernel: KernelDraft, segment: Segment, array: SpellLanes, crossing: frozenset[str]
) -> list[str]:
    """Write a loop that computes only lanes that take part, for what does not vectorise."""
    lane = segment.lanes[0]
    q = "m"
    if lane.guard is not None:
        q = f"m & {'~' if lane.guard.negated else ''}{array(lane.guard.reg.name)}"
    plain = Lane(lane.results, lane.reads, None, lane.uniforms, lane.vectorises)
    lines = [f"const auto {name} = {text};" for name, text in lane.uniforms]
    lines.append(f"for (emu::Mask rest = {q}; rest; rest &= rest - 1) {{")
    lines.append("const int i = __builtin_ctz(rest);")
    lines += _body(kernel, Segment((plain,)), array)
    for register in sorted(segment.stores):
        name = kernel.name(register)
        if kernel.is_predicate(register):
            lines.append(f"emu::put({array(register)}, 1u << i, emu::Mask({name}) << i);")
        else:
            lines.append(f"{array(register)}[i] = {name};")
    lines.append("}")
    return lines
