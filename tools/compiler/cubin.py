"""Reads registers, shared memory and stack of a kernel from its machine code.

ptxas reports the same figures in its messages, but a source can make the compiler print messages of
any content.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from cuda_llm.errors import InfrastructureError
from cuda_llm.profile import KernelResources

Elf: TypeAlias = Any
"""An ELFFile of elftools, whose sections are typed too loosely for a precise type."""

ENTRY_FLAG = 0x10
"""Flag in `st_other` of a symbol that marks a kernel, not a function that kernels call."""
REGISTERS, STACK_BYTES = 0x2F, 0x12
"""Attributes of `.nv.info` that hold a symbol's number and a figure."""
WIDE = 4
"""Format of an attribute that is followed by its size; others are four bytes altogether."""

SYSTEM_SHARED, SYSTEM_BYTES = ".nv.shared.reserved.0", 1024
"""Section, and bytes that the system reserves at the start of a kernel's shared memory where the
section exists: from compute capability 9.0 on."""


@dataclass(frozen=True, kw_only=True)
class EntryFacts:
    """Resources of a kernel in a cubin."""

    registers: int
    """Registers per thread."""
    shared_bytes: int
    """Bytes of static shared memory per block."""
    stack_bytes: int


def true_resources(
    printed: Iterable[KernelResources], cubins: Sequence[Path]
) -> tuple[KernelResources, ...]:
    """Return the resources of every kernel from the cubins, in the order of `printed`.

    Spills and constants do not affect verdicts, and keep the printed values. Raises
    InfrastructureError where a cubin is not valid.
    """
    found = {name: facts for cubin in cubins for name, facts in read_entries(cubin).items()}
    known = {one.symbol: one for one in printed if one.symbol in found}
    for symbol, facts in found.items():
        one = known.get(symbol) or KernelResources(
            kernel=symbol, symbol=symbol, registers=0, shared_bytes=0
        )
        known[symbol] = replace(
            one,
            registers=facts.registers,
            shared_bytes=facts.shared_bytes,
            stack_bytes=facts.stack_bytes,
        )
    return tuple(known.values())


def read_entries(cubin: Path) -> Mapping[str, EntryFacts]:
    """Return the kernels of a cubin by their symbols. Raises InfrastructureError for a cubin that
    is not valid."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with cubin.open("rb") as file:
            return _entries(ELFFile(file))
    except (ELFError, OSError, struct.error, AttributeError) as error:
        raise InfrastructureError("compiler", f"{cubin.name} is no cubin: {error}") from error


def _entries(elf: Elf) -> dict[str, EntryFacts]:
    symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
    info = elf.get_section_by_name(".nv.info")
    figures = dict(_figures(info.data())) if info is not None else {}
    reserved = SYSTEM_BYTES if elf.get_section_by_name(SYSTEM_SHARED) is not None else 0
    found = {}
    for number, symbol in enumerate(symbols):
        if not _other(elf, number) & ENTRY_FLAG:
            continue
        shared = elf.get_section_by_name(f".nv.shared.{symbol.name}")
        found[symbol.name] = EntryFacts(
            registers=figures[REGISTERS, number],
            shared_bytes=max(0, shared.data_size - reserved) if shared is not None else 0,
            stack_bytes=figures.get((STACK_BYTES, number), 0),
        )
    return found


def _other(elf: Elf, number: int) -> int:
    """Return `st_other` whole: elftools takes it apart as other machines lay it out."""
    table = elf.get_section_by_name(".symtab")
    at = table["sh_offset"] + number * table["sh_entsize"]
    elf.stream.seek(at + 5)
    return int(elf.stream.read(1)[0])


def _figures(info: bytes) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield attribute and symbol's number with the figure, of attributes that have both."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form != WIDE:
            continue
        if size == 8:
            symbol, figure = struct.unpack_from("<II", info, at)
            yield (attribute, symbol), figure
        at += size
