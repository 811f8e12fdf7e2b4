"""A task and a GPU in words: what a kernel must do to be right, what it may use, and the GPU's
own figures.

Hidden sizes are never among them.
"""

from cuda_llm.agents.prompting.quote import clean, hide, one_line
from cuda_llm.agents.prompting.token_budget import Passage
from cuda_llm.agents.situation import Situation
from cuda_llm.tasks.task import SummationOrder, Task, ToleranceClass
from cuda_llm.wording import describe_dims

_ROUNDING = {"fp32": "2^-24", "tf32": "2^-11", "fp16": "2^-11", "bf16": "2^-8"}
_SCALE = {
    ToleranceClass.ELEMENTWISE: "the size of the element itself",
    ToleranceClass.REDUCTION: "the sum of the magnitudes of its terms",
    ToleranceClass.DOT: "the sum of the magnitudes of its products",
}


def describe_tolerance(task: Task) -> str:
    """Describe when a result counts as right."""
    tolerance = task.tolerance
    if task.comparator:
        return "The task's own rule judges the result."
    if tolerance.kind == ToleranceClass.EXACT:
        return "Every element of the outputs must be exactly right, bit for bit."
    unit = _ROUNDING.get(tolerance.precision, "one rounding")
    allowed = f"{tolerance.max_units:g} roundings" if tolerance.max_units else "a few roundings"
    if not tolerance.max_units and tolerance.kind != ToleranceClass.ELEMENTWISE:
        allowed = "what rounding at every step adds up to"
    rule = (
        f"Every element is compared with a float64 reference. Allowed is {allowed} in "
        f"{tolerance.precision} ({unit} each), relative to {_SCALE[tolerance.kind]}"
    )
    orders = {
        SummationOrder.ANY: "Terms may be added in any order.",
        SummationOrder.TREE: "Partial sums must be combined pairwise, as a tree.",
    }
    adds = tolerance.kind in (ToleranceClass.REDUCTION, ToleranceClass.DOT)
    return f"{rule}. {orders[tolerance.order]}" if adds else f"{rule}."


def describe_named_dims(task: Task) -> tuple[str, ...]:
    """Describe what each dim means, and what always holds of them."""
    meanings = (f"{name}: {meaning}" for name, meaning in task.dims.items())
    return (*meanings, *((f"always holds: {task.requires}",) if task.requires else ()))


def describe_sizes(situation: Situation) -> str:
    """Describe the sizes that are timed."""
    return "; ".join(describe_dims(dims) for dims in situation.sizes)


def describe_allowed(task: Task) -> tuple[str, ...]:
    """Describe what this task allows beyond launching kernels."""
    allowed = task.capabilities
    lines = []
    if allowed.scratch_bytes.strip() != "0":
        lines.append(
            f"device memory of its own, {allowed.scratch_bytes} bytes at most (cudaMalloc or "
            "cudaMallocAsync and the matching free, inside every call)"
        )
    if allowed.device_to_host:
        lines.append("copies from device to host")
    if allowed.header_libraries:
        names = ", ".join(one_line(name) for name in allowed.header_libraries)
        lines.append(f"header libraries: {names}")
    if allowed.defines:
        pairs = ", ".join(f"{name}={value}" for name, value in allowed.defines.items())
        lines.append(f"macros it is compiled with: {one_line(pairs)}")
    if allowed.flags:
        lines.append(f"flags it is compiled with: {one_line(' '.join(allowed.flags))}")
    return tuple(lines)


_TENSOR_TYPES = {"tf32": "tf32", "fp16": "fp16", "bf16": "bf16"}


def describe_hardware(situation: Situation) -> tuple[str, ...]:
    """Describe the GPU, one fact a line."""
    hardware = situation.hardware
    limits, peaks = hardware.limits, hardware.peaks
    major, minor = hardware.compute_capability
    return (
        f"{hardware.name}: {hardware.architecture}, compute capability {major}.{minor} "
        f"({hardware.target}), {hardware.sm_count} SMs at {hardware.boost_clock_mhz:,.0f} MHz",
        f"DRAM: {peaks.dram_gb_s:,.0f} GB/s; L2: {_mebibytes(hardware.l2_bytes)}",
        f"fp32: {peaks.fp32_tflops:g} TFLOPS",
        *_tensor(situation),
        f"shared memory: {_kibibytes(limits.shared_bytes_per_block)} a block, "
        f"{_kibibytes(limits.shared_bytes_per_block_optin)} when asked for "
        "(cudaFuncAttributeMaxDynamicSharedMemorySize), "
        f"{_kibibytes(limits.shared_bytes_per_sm)} an SM, of which each block takes "
        f"{_kibibytes(limits.shared_bytes_reserved_per_block)} for itself",
        f"registers: {limits.registers_per_sm:,} an SM, 255 a thread at most",
        f"threads: {limits.threads_per_block:,} a block, {limits.threads_per_sm:,} an SM; blocks: "
        f"{limits.blocks_per_sm} an SM",
        f"an SM serves {hardware.pipes.load_store:g} four-byte words of shared memory or L1 a "
        "clock",
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


def describe_notes(situation: Situation) -> Passage:
    """Return what agents noted that is not about the hardware."""
    context = situation.plan.hardware_context
    noted = [
        f"{name}: {hide(clean(note.text).strip(), situation.hardware, context)}"
        for name, note in situation.notes.items()
        if note.text.strip() and not note.about_hardware
    ]
    return Passage(entries=tuple(noted), noun="notes")


def _tensor(situation: Situation) -> tuple[str, ...]:
    """Describe tensor cores, where the task's precision and the device allow their use."""
    precision = situation.task.tolerance.precision
    rate = situation.hardware.peaks.tensor_dense_tflops.get(_TENSOR_TYPES.get(precision, ""))
    if rate is None or not situation.capabilities.full_isa:
        return ()
    return (f"tensor cores, {precision} inputs: {rate:g} TFLOPS",)


def _kibibytes(count: int) -> str:
    return f"{count / 1024:g} KiB"


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:g} MiB"
