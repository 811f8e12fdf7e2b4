"""A library's call on the CPU, its time modelled as that of eager operators on the GPU.

Each operator that PyTorch is asked for is a kernel that reads and writes its tensors in DRAM, or
computes, whichever takes longer, after a launch.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cuda_llm.errors import TaskError
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.roofline import published_peaks, roof
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.library import load_library
from cuda_llm.tasks.torch_module import import_torch
from cuda_llm.tasks.torch_trace import Operator, record_operators
from cuda_llm.tools.device import Argument, CallOptions, CallReport, Level, Scalar
from cuda_llm.tools.device.buffers import Array, BufferSpec, PlacedBuffer
from cuda_llm.tools.device.candidate import LibraryCall

_GUARD_BYTES = 4096
_ALIGNMENT = 256
_TENSOR = {"float16": "tensor:fp16", "bfloat16": "tensor:bf16"}
"""Peak of contractions by element type; fp32 is contracted on CUDA cores, as in `exact_torch`."""


class HostLibrarySession:
    """A `SamplingSession` of a library's call: its results are computed on the CPU.

    Raises TaskError where the file is broken, MissingError without PyTorch.
    """

    def __init__(self, call: LibraryCall, hardware: Hardware) -> None:
        self._torch = import_torch()
        self._call = call
        self._library = load_library(call.file, call.arguments)
        self._hardware = hardware
        self._specs: Mapping[str, BufferSpec] = {}
        self._placed: dict[str, PlacedBuffer] = {}

    def place(self, buffers: Sequence[BufferSpec]) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls. New buffers and guards are zero."""
        return self.place_unfilled(buffers, {})

    def place_unfilled(
        self, buffers: Sequence[BufferSpec], pools: Mapping[str, bytes]
    ) -> dict[str, PlacedBuffer]:
        """Lay out the buffers of the next calls. Buffers named in `pools` have a shape alone, no
        memory."""
        self._specs = {one.name: one for one in buffers}
        self._placed = {one.name: _place(one) for one in buffers if one.name not in pools}
        return dict(self._placed)

    async def call(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Call the library once on the CPU and model its time."""
        torch, started = self._torch, time.monotonic()
        tensors = {
            name: torch.from_numpy(one.data).view(self._dtype(one.spec))
            for name, one in self._placed.items()
        }
        results = self._run(tensors, arguments)
        for name, result in zip(self._call.outputs, results or (), strict=bool(results)):
            tensors[name].copy_(result.reshape(tensors[name].shape))
        return self._report(arguments, time.monotonic() - started)

    async def sample(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> CallReport | Verdict:
        """Model the time of a call. At level `sample` nothing is computed, since no results are
        compared."""
        if options.level is not Level.SAMPLE:
            return await self.call(arguments, options)
        return self._report(arguments, 0.0)

    def certain_ranges(self, name: str) -> Array:
        """Return that no bytes of any output are certain: nothing was computed."""
        return np.zeros((0, 2), np.int64)

    def unfilled_elements(self, name: str, indices: Array) -> Array:
        """Raise ValueError: no buffer has contents where nothing is computed."""
        raise ValueError(f"{name} has no contents")

    def _report(self, arguments: Sequence[Argument], wall_s: float) -> CallReport:
        operators = self._operators(arguments)
        time_us = sum(operator_us(one, self._hardware) for one in operators)
        return CallReport(wall_s=wall_s, time_us=time_us, kernels=max(1, len(operators)))

    def _dtype(self, spec: BufferSpec) -> Any:
        return getattr(self._torch, spec.element_type.name)

    def _operators(self, arguments: Sequence[Argument]) -> tuple[Operator, ...]:
        """Return the operators of a call, recorded on tensors of the device `meta`, which hold no
        elements."""
        torch = self._torch
        meta = {
            name: torch.empty(one.shape, dtype=self._dtype(one), device="meta")
            for name, one in self._specs.items()
        }
        operators, _ = record_operators(torch, lambda: self._run(meta, arguments))
        return operators

    def _run(self, tensors: Mapping[str, Any], arguments: Sequence[Argument]) -> Any:
        named = zip(self._call.arguments, arguments, strict=True)
        values = {n: one.value if isinstance(one, Scalar) else tensors[n] for n, one in named}
        try:
            with self._torch.no_grad():
                return self._library.call(
                    self._torch, **{name: values[name] for name in self._library.wanted}
                )
        except Exception as error:
            raise TaskError(f"{self._call.file}: {type(error).__name__}: {error}") from error


def operator_us(operator: Operator, hardware: Hardware) -> float:
    """Return the modelled microseconds of an operator, including its launch."""
    tensor = _TENSOR.get(operator.dtype, "")
    precision = tensor if tensor in published_peaks(hardware) else "fp32"
    least = roof(
        hardware, flops=operator.flops, bytes_moved=operator.bytes_moved, precision=precision
    )
    moving_us = least.memory_us / hardware.model.dram_efficiency
    return max(least.compute_us, moving_us) + hardware.model.launch_us


def _place(spec: BufferSpec) -> PlacedBuffer:
    before = _GUARD_BYTES + spec.shift_bytes
    memory = np.zeros(before + spec.nbytes + _GUARD_BYTES + _ALIGNMENT, np.uint8)
    begin = before + -(memory.ctypes.data + before) % _ALIGNMENT
    end = begin + spec.nbytes
    return PlacedBuffer(
        spec=spec,
        data=memory[begin:end].view(spec.dtype).reshape(spec.shape),
        guard_before=memory[:begin],
        guard_after=memory[end:],
    )
