"""Kernel tables as plain JSON values, and back."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from cuda_llm.facts import SourceSpot
from cuda_llm.tools.emulator.tables import (
    BasicBlock,
    InstructionClass,
    InstructionSite,
    KernelTable,
    Unsupported,
)


def kernel_records(kernels: Sequence[KernelTable]) -> list[dict[str, Any]]:
    """Tables as JSON values."""
    return [asdict(kernel) for kernel in kernels]


def read_kernel_records(records: Any) -> tuple[KernelTable, ...]:
    """The inverse of `kernel_records`."""
    return tuple(
        KernelTable(
            symbol=record["symbol"],
            sites=tuple(InstructionSite(**_with_spot(site)) for site in record["sites"]),
            blocks=tuple(_block(block) for block in record["blocks"]),
            unsupported=tuple(Unsupported(**_with_spot(u)) for u in record["unsupported"]),
        )
        for record in records
    )


def _block(record: Mapping[str, Any]) -> BasicBlock:
    mix = {InstructionClass(name): count for name, count in record["mix"].items()}
    return BasicBlock(**{**_with_spot(record), "mix": mix})


def _with_spot(record: Mapping[str, Any]) -> dict[str, Any]:
    spot = record["spot"]
    return {**record, "spot": None if spot is None else SourceSpot(**spot)}
