"""Translates a PTX module to C++, and lists its instructions that the emulated device lacks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cuda_llm.profile import KernelResources
from cuda_llm.source_file import shared_shape
from cuda_llm.tools.emulator.codegen.constants import propagate_constants
from cuda_llm.tools.emulator.codegen.emit import emit
from cuda_llm.tools.emulator.codegen.flow import FlowBlock, blocks_of
from cuda_llm.tools.emulator.codegen.functions import number_functions
from cuda_llm.tools.emulator.codegen.guards import mark_guards
from cuda_llm.tools.emulator.codegen.in_flight import watch_registers
from cuda_llm.tools.emulator.codegen.inline import inline_calls
from cuda_llm.tools.emulator.codegen.kernel import KernelDraft, RefusedInstruction, SiteDraft
from cuda_llm.tools.emulator.codegen.layout import Layout, lay_out, module_variables
from cuda_llm.tools.emulator.codegen.liveness import LoweredBlock
from cuda_llm.tools.emulator.codegen.lower import lower
from cuda_llm.tools.emulator.codegen.merging import merge_accesses
from cuda_llm.tools.emulator.codegen.param_space import lower_param_space
from cuda_llm.tools.emulator.codegen.sites import Spots, basic_block, site
from cuda_llm.tools.emulator.codegen.steering import mark_steering
from cuda_llm.tools.emulator.codegen.waits import (
    BlockInstructions,
    LoweredInstruction,
    loaded_registers,
    place_waits,
)
from cuda_llm.tools.emulator.ptx.module import (
    Function,
    FunctionCall,
    Instruction,
    Module,
    Variable,
)
from cuda_llm.tools.profiler.tables import (
    PIPES,
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
    SharedVariable,
    Unsupported,
)

MOST_BLOCKS = 0xFFFF
"""Program counters have 16 bits."""
_VIRTUAL_TABLE = "_ZTV"
"""How the names of tables of virtual functions begin, which no program may write."""
_HEAD = """\
#include "emu/arith.h"
#include "emu/asynchronous.h"
#include "emu/collective.h"
#include "emu/generated.h"
#include "emu/memory.h"
#include "emu/schedule.h"
#include "emu/tensor.h"
#include "emu/warp.h"
#include "emu/wgmma.h"
"""


def unsupported(refused: Iterable[Instruction], spots: Spots) -> tuple[Unsupported, ...]:
    """Return the refused instructions grouped by opcode, first place first."""
    found: dict[str, list[Instruction]] = {}
    for instruction in refused:
        found.setdefault(instruction.spelling, []).append(instruction)
    return tuple(
        Unsupported(opcode=opcode, count=len(places), spot=spots.at(places[0].loc))
        for opcode, places in found.items()
    )


@dataclass(frozen=True)
class Generated:
    """C++ source and tables of a translated module."""

    text: str
    """C++ to be compiled with the folder `runtime` on its include path."""
    kernels: tuple[KernelTable, ...]


@dataclass(frozen=True)
class _Lowered:
    kernel: KernelDraft
    blocks: tuple[LoweredBlock, ...]
    table: tuple[BasicBlock, ...]
    refused: tuple[Unsupported, ...]


def generate(
    module: Module,
    resources: Sequence[KernelResources],
    source_name: str,
    source: str,
    *,
    tracks: bool = False,
) -> Generated:
    """Translate every `.entry`. `resources` have the registers per thread, by symbol.

    With `tracks`, kernels compute which bits of their values are undefined beside the values.
    """
    spots = Spots(source_name, source)
    registers = {found.symbol: found.registers for found in resources}
    texts: list[str] = []
    tables: list[KernelTable] = []
    rows: list[str] = []
    numbered = number_functions(module)
    module = numbered.module
    for number, entry in enumerate(f for f in module.functions if f.entry):
        flat = propagate_constants(lower_param_space(inline_calls(numbered, entry)))
        layout = lay_out(module, flat)
        lowered = _lower(flat, layout, module.target, spots, tracks=tracks)
        run, register_bytes, undefined = "nullptr", "0", "0"
        if not lowered.refused:
            emitted = emit(lowered.kernel, lowered.blocks, number)
            texts.append(emitted.text)
            run, register_bytes = emitted.function, f"sizeof({emitted.registers})"
            undefined = f"offsetof({emitted.registers}, undefined)" if tracks else "0"
        shared = tuple(_with_shape(one, source) for one in layout.shared)
        table = _table(entry.name, lowered, spots, shared)
        tables.append(table)
        sites = lowered.kernel.sites if table.sites else []
        texts.append(_facts(number, table, layout, sites))
        copies, loops = (
            max((getattr(one, name) for one in sites), default=0) for name in ("copy", "loop")
        )
        rows.append(
            f'{{"{entry.name}", {run}, {register_bytes}, {layout.local_bytes}, '
            f"{layout.shared_bytes}, {layout.param_bytes}, {entry.max_threads}, "
            f"{registers.get(entry.name, 0)}, {len(table.blocks)}, {len(table.sites)}, "
            f"sites{number}, {len(layout.params)}, params{number}, costs{number}, "
            f"{copies}, {loops}, {{{', '.join(map(str, _three(entry.cluster)))}}}, {undefined}}}"
        )
    head = _HEAD + ('#include "emu/undefined.h"\n' if tracks else "")
    text = "\n".join([head, *texts, _module(module, rows), ""])
    return Generated(text, tuple(tables))


def _three(cluster: Sequence[int]) -> tuple[int, ...]:
    return (*cluster, 1, 1)[:3] if cluster else (0, 0, 0)


def _lower(flat: Function, layout: Layout, target: str, spots: Spots, *, tracks: bool) -> _Lowered:
    kernel = KernelDraft(layout, dict(flat.registers), tracks)
    blocks = blocks_of(flat)
    bodies: list[BlockInstructions] = []
    refused: list[Instruction] = []
    for index, block in enumerate(blocks):
        kernel.block = index
        body: list[LoweredInstruction] = []
        for instruction in block.body:
            first = len(kernel.sites)
            steps = lower(kernel, instruction)
            if isinstance(steps, RefusedInstruction):
                refused.append(instruction)
            else:
                sites = range(first, len(kernel.sites))
                body.append(LoweredInstruction(instruction, steps, sites))
        bodies.append(BlockInstructions(body, block.end))
    watched = [] if refused else watch_registers(kernel, bodies)
    lowered = [LoweredBlock(steps, one.end) for steps, one in zip(watched, blocks, strict=False)]
    kernel.sites = list(mark_steering(place_waits(kernel.sites, bodies), bodies))
    kernel.sites = list(mark_guards(kernel.sites, bodies))
    kernel.sites = list(merge_accesses(kernel, bodies, target))
    loaded = loaded_registers(bodies)
    table = [
        basic_block(block, one.body, kernel.sites, loaded, spots)
        for block, one in zip(blocks, bodies, strict=True)
    ]
    found = unsupported(refused, spots) + _refused_whole(flat, blocks)
    return _Lowered(kernel, tuple(lowered), tuple(table), found)


def _refused_whole(kernel: Function, blocks: Sequence[FlowBlock]) -> tuple[Unsupported, ...]:
    """Return why a kernel is refused as a whole."""
    reasons = []
    if len(blocks) > MOST_BLOCKS:
        reasons.append(f"more than {MOST_BLOCKS} basic blocks")
    return tuple(Unsupported(opcode=reason, count=1, spot=None) for reason in reasons)


def _with_shape(array: SharedVariable, source: str) -> SharedVariable:
    if array.size_bytes is None:
        return array
    return replace(array, shape=shared_shape(source, array.name, array.size_bytes))


def _table(
    symbol: str, lowered: _Lowered, spots: Spots, shared: tuple[SharedVariable, ...]
) -> KernelTable:
    if lowered.refused:
        return KernelTable(symbol=symbol, unsupported=lowered.refused)
    return KernelTable(
        symbol=symbol,
        sites=tuple(site(draft, spots) for draft in lowered.kernel.sites),
        blocks=lowered.table,
        shared=shared,
    )


def _facts(number: int, table: KernelTable, layout: Layout, drafts: Sequence[SiteDraft]) -> str:
    """Return the C++ arrays of a kernel's sites, parameters and block costs, each with at least one
    element as C++ requires."""
    sites = [_site(one, draft) for one, draft in zip(table.sites, drafts, strict=True)]
    costs = [_cost(block) for block in table.blocks]
    params = [f"{{{offset}, {size}}}" for offset, size in layout.params]
    return (
        f"static const emu::Site sites{number}[] = {{{', '.join(sites) or '{}'}}};\n"
        f"static const emu::Param params{number}[] = {{{', '.join(params) or '{}'}}};\n"
        f"static const emu::BlockCost costs{number}[] = {{{', '.join(costs) or '{}'}}};"
    )


def _site(one: InstructionSite, draft: SiteDraft) -> str:
    line = one.spot.line if one.spot else 0
    width = "emu::kPart" if draft.width == 0 else str(draft.width or 0)
    facts = (line, one.block, one.bytes, draft.waits, draft.copy, draft.loop)
    steers = str(draft.steers).lower()
    rest = f"{steers}, {draft.updates}, {width}, {draft.shift}"
    return f'{{"{one.opcode}", {", ".join(map(str, facts))}, {rest}}}'


def _cost(block: BasicBlock) -> str:
    issued = sum(count for kind, count in block.mix.items() if kind is not InstructionClass.FREE)
    pipes = [*(block.mix.get(kind, 0) for kind in PIPES), issued]
    waits = (block.dependent_chain, block.shared_waits, block.cached_waits)
    return f"{{{{{', '.join(map(str, pipes))}}}, {', '.join(map(str, waits))}}}"


def _module(module: Module, kernels: Sequence[str]) -> str:
    variables = module_variables(module)
    numbers = {variable.name: index for index, variable in enumerate(variables)}
    data = [_data(index, v) for index, v in enumerate(variables) if v.initial]
    rows = [_row(index, variable) for index, variable in enumerate(variables)]
    relocations = [
        f"{{{index}, {offset}, {numbers[symbol.name]}, {symbol.offset}}}"
        for index, variable in enumerate(variables)
        for offset, symbol in variable.pointers
        if symbol.name in numbers
    ]
    return "\n".join(
        [
            *data,
            f"static const emu::Kernel kernels[] = {{{', '.join(kernels) or '{}'}}};",
            f"static const emu::Variable variables[] = {{{', '.join(rows) or '{}'}}};",
            f"static const emu::Relocation relocations[] = {{{', '.join(relocations) or '{}'}}};",
            'extern "C" [[gnu::visibility("default")]] const emu::Module emu_module = {',
            f"emu::kAbi, {len(kernels)}, kernels, {len(rows)}, variables, "
            f"{len(relocations)}, relocations, {str(_allocates(module)).lower()}}};",
        ]
    )


def _allocates(module: Module) -> bool:
    bodies = (one for function in module.functions for one in function.body)
    return any(isinstance(one, FunctionCall) and one.target == "malloc" for one in bodies)


def _data(index: int, variable: Variable) -> str:
    content = ",".join(map(str, (variable.initial or b"").rstrip(b"\0") or b"\0"))
    return f"static const uint8_t data{index}[] = {{{content}}};"


def _row(index: int, variable: Variable) -> str:
    stored = len((variable.initial or b"").rstrip(b"\0") or b"\0") if variable.initial else 0
    initial = f"data{index}" if variable.initial else "nullptr"
    is_table = variable.name.startswith(_VIRTUAL_TABLE)
    constant = str(variable.space == "const" or is_table).lower()
    return (
        f'{{"{variable.name}", {variable.size}, {variable.align}, {constant}, {initial}, {stored}}}'
    )
