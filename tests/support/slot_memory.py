"""Memory of the slots of a measured site: buffers between guards, and the keystream of seals."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cuda_llm.tools.device.buffers import BufferSpec, PlacedBuffer, Role, Slot, Slots

Array = npt.NDArray[Any]
GUARD_BYTES = 256


def keystream(key: bytes, slot: int, index: int, size: int) -> Array:
    """Return bytes that are known with the key alone."""
    seed = hashlib.blake2b(bytes([slot, index]), key=key, digest_size=16).digest()
    return np.frombuffer(hashlib.shake_128(seed).digest(size), np.uint8)


def as_bytes(array: Array) -> npt.NDArray[np.uint8]:
    """Return a view of its bytes."""
    return array.reshape(-1).view(np.uint8)


def views(buffers: Mapping[str, PlacedBuffer]) -> dict[str, Array]:
    """Return the arrays alone."""
    return {name: buffer.data for name, buffer in buffers.items()}


def placed(spec: BufferSpec) -> PlacedBuffer:
    """Return a buffer between guards."""
    return Slots(buffers={spec.name: column(spec, 1)}, sealed={}, count=1)[0].buffers[spec.name]


def column(spec: BufferSpec, count: int) -> PlacedBuffer:
    """Return the buffer of each slot between its guards, as far apart as slots of a GPU."""
    end = GUARD_BYTES + spec.nbytes
    stride = -(-(end + GUARD_BYTES) // GUARD_BYTES) * GUARD_BYTES
    memory = np.zeros((count, stride), np.uint8)
    data = memory[:, GUARD_BYTES:end].view(spec.dtype).reshape((count, *spec.shape))
    assert np.shares_memory(memory, data)
    return PlacedBuffer(spec, data, memory[:, :GUARD_BYTES], memory[:, end : end + GUARD_BYTES])


def lay_out_slots(buffers: Sequence[BufferSpec], count: int) -> Slots:
    """Return slots with memory of their own."""
    return Slots(
        buffers={spec.name: column(spec, count) for spec in buffers},
        sealed={
            spec.name: np.zeros((count, spec.nbytes), np.uint8)
            for spec in buffers
            if spec.role is not Role.OUT
        },
        count=count,
    )


def wrapped(buffer: PlacedBuffer, wrap: Callable[[Array], Any]) -> PlacedBuffer:
    """Return the same memory in the arrays that the judge gets."""
    return PlacedBuffer(
        buffer.spec, wrap(buffer.data), wrap(buffer.guard_before), wrap(buffer.guard_after)
    )


def seal_inputs(
    memory: Slots, slots: Sequence[int], keys: Sequence[bytes], contents: Mapping[str, Any]
) -> None:
    """Encrypt contents, one row a slot, into the sealed arrays of `slots`."""
    for index, (name, sealed) in enumerate(memory.sealed.items()):
        given = getattr(contents[name], "hidden", contents[name])
        assert len(given) == len(slots)
        for slot, key, content in zip(slots, keys, given, strict=True):
            plain = as_bytes(np.ascontiguousarray(content))
            sealed[slot] = plain ^ keystream(key, slot, index, plain.size)


def open_inputs(memory: Slot, slot: int, key: bytes) -> None:
    """Decrypt the inputs of a slot, which has this number."""
    for index, (name, sealed) in enumerate(memory.sealed.items()):
        opened = sealed ^ keystream(key, slot, index, sealed.size)
        as_bytes(memory.buffers[name].data)[...] = opened


def tag_outputs(memory: Slot) -> dict[str, bytes]:
    """Return hashes of the outputs of a slot."""
    return {
        name: hashlib.blake2b(buffer.data.tobytes(), digest_size=8).digest()
        for name, buffer in memory.buffers.items()
        if buffer.spec.role is not Role.IN
    }
