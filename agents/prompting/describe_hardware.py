"""A GPU in words, the facts that decide how a kernel is written with the arithmetic on them, and
what agents noted.
"""

import math

from cuda_llm.agents.prompting.quote import clean, hide
from cuda_llm.agents.prompting.token_budget import Passage
from cuda_llm.agents.situation import Situation
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import WARP_THREADS

_TENSOR_TYPES = {"tf32": "tf32", "fp16": "fp16", "bf16": "bf16"}


def describe_hardware(situation: Situation) -> tuple[str, ...]:
    """Describe the GPU, one fact a line, with what arithmetic on kernels needs."""
    hardware = situation.hardware
    limits, peaks, model = hardware.limits, hardware.peaks, hardware.model
    major, minor = hardware.compute_capability
    l2_gb_s = model.l2_bytes_per_clk * hardware.boost_clock_mhz / 1e3
    return (
        f"{hardware.name}: {hardware.architecture}, compute capability {major}.{minor} "
        f"({hardware.target}), {hardware.sm_count} SMs at {hardware.boost_clock_mhz:,.0f} MHz",
        f"DRAM: {peaks.dram_gb_s:,.0f} GB/s; L2: {_mebibytes(hardware.l2_bytes)}, "
        f"{l2_gb_s:,.0f} GB/s; an SM serves {hardware.pipes.load_store:g} four-byte words of "
        "shared memory or L1 a clock",
        f"clocks to wait: DRAM {model.latency_dram_clk:g}, L2 {model.latency_l2_clk:g}, "
        f"L1 {model.latency_l1_clk:g}, shared {model.latency_shared_clk:g}, "
        f"arithmetic {model.latency_alu_clk:g}",
        _to_hide_waits(hardware),
        f"fp32: {peaks.fp32_tflops:g} TFLOPS, {hardware.pipes.fp32:g} FMA a clock and SM",
        *_tensor(situation),
        f"shared memory: {_kibibytes(limits.shared_bytes_per_block)} a block, "
        f"{_kibibytes(limits.shared_bytes_per_block_optin)} when asked for "
        "(cudaFuncAttributeMaxDynamicSharedMemorySize), "
        f"{_kibibytes(limits.shared_bytes_per_sm)} an SM, of which each block takes "
        f"{_kibibytes(limits.shared_bytes_reserved_per_block)} for itself",
        f"registers: {limits.registers_per_sm:,} an SM, 255 a thread at most; threads: "
        f"{limits.threads_per_block:,} a block, {limits.threads_per_sm:,} an SM; blocks: "
        f"{limits.blocks_per_sm} an SM",
    )


def _to_hide_waits(hardware: Hardware) -> str:
    """Describe the warps an SM needs against waits: latency times throughput (Little's law)."""
    per_clk = hardware.peaks.dram_gb_s * 1e3 / hardware.boost_clock_mhz / hardware.sm_count
    in_flight = per_clk * hardware.model.latency_dram_clk
    loads = math.ceil(in_flight / (WARP_THREADS * 4))
    chains = math.ceil(hardware.pipes.fp32 / WARP_THREADS * hardware.model.latency_alu_clk)
    return (
        f"to hide them an SM needs {in_flight:,.0f} B on their way from DRAM ({loads} warps with "
        f"a 4-byte load each, {math.ceil(loads / 4)} with a 16-byte one) or {chains} independent "
        "chains of FMA, over its warps"
    )


def describe_known_hardware(situation: Situation) -> Passage:
    """Describe the GPU as far as the hardware context allows, with agents' notes on it."""
    match situation.plan.hardware_context:
        case "full":
            noted = [note.text for note in situation.notes.values() if note.about_hardware]
            entries = (
                *describe_hardware(situation),
                *filter(None, map(str.strip, map(clean, noted))),
            )
            return Passage(entries=entries, noun="facts")
        case "name":
            return Passage(entries=(situation.hardware.name,))
        case _:
            return Passage()


def _tensor(situation: Situation) -> tuple[str, ...]:
    """Describe tensor cores, where the task's precision and the chip allow their use."""
    precision = situation.task.tolerance.precision
    rate = situation.hardware.peaks.tensor_dense_tflops.get(_TENSOR_TYPES.get(precision, ""))
    if rate is None:
        return ()
    return (f"tensor cores, {precision} inputs: {rate:g} TFLOPS",)


def _kibibytes(count: int) -> str:
    return f"{count / 1024:g} KiB"


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:g} MiB"


def describe_notes(situation: Situation) -> Passage:
    """Return what agents noted that is not about the hardware."""
    context = situation.plan.hardware_context
    noted = [
        f"{name}: {hide(clean(note.text).strip(), situation.hardware, context)}"
        for name, note in situation.notes.items()
        if note.text.strip() and not note.about_hardware
    ]
    return Passage(entries=tuple(noted), noun="notes")
