"""The frames of `native/frames.h` in Python.

Each kind of frame has one fixed size and is one packet, so nothing that a runner sends decides how
much is read.
"""

import ctypes
from enum import IntEnum

MAX_INTEGERS = 24
MAX_FLOATS = 8
MAX_BUFFERS = MAX_INTEGERS
FAULT_STATUS = 86
"""Exit status of a runner that left a fault in the report."""

_U32, _U64 = ctypes.c_uint32, ctypes.c_uint64


class DeviceFacts(ctypes.Structure):
    """The facts of a GPU that the emulated device imitates, laid out as `emu::DeviceFacts`."""

    _fields_ = (
        ("name", ctypes.c_char * 64),
        ("compute_major", _U32),
        ("compute_minor", _U32),
        ("sm_count", _U32),
        ("max_threads_per_block", _U32),
        ("max_threads_per_sm", _U32),
        ("max_blocks_per_sm", _U32),
        ("registers_per_sm", _U32),
        ("registers_per_block", _U32),
        ("shared_bytes_per_block", _U32),
        ("shared_bytes_per_block_optin", _U32),
        ("shared_bytes_per_sm", _U32),
        ("shared_bytes_reserved", _U32),
        ("l2_bytes", _U32),
        ("l1_bytes", _U32),
        ("clock_khz", _U32),
        ("memory_clock_khz", _U32),
        ("memory_bus_bits", _U32),
        ("memory_bytes", _U64),
        ("latency_alu", _U32),
        ("latency_shared", _U32),
        ("latency_l1", _U32),
        ("latency_l2", _U32),
        ("latency_dram", _U32),
        ("load_store", _U32),
        ("wgmma_fp16", _U32),
        ("wgmma_tf32", _U32),
        ("wgmma_fp8", _U32),
        ("wgmma_int8", _U32),
    )


class StartFrame(ctypes.Structure):
    """`StartFrame`: the first order to a runner of the emulated device."""

    _fields_ = (("arena_bytes", _U64), ("report_bytes", _U64), ("facts", DeviceFacts))


class CallBuffer(ctypes.Structure):
    """`emu::CallBuffer`."""

    _fields_ = (
        ("offset", _U64),
        ("bytes", _U64),
        ("role", _U32),
        ("index", _U32),
        ("pool_offset", _U64),
        ("pool_bytes", _U64),
    )


class CallFrame(ctypes.Structure):
    """`CallFrame`: the order to call `solve` once."""

    _fields_ = (
        ("sequence", _U64),
        ("integers", _U64 * MAX_INTEGERS),
        ("floats", _U64 * MAX_FLOATS),
        ("pointers", _U32),
        ("buffer_count", _U32),
        ("buffers", CallBuffer * MAX_BUFFERS),
        ("schedule_seed", _U64),
        ("scratch_bytes", _U64),
        ("fuel", _U64),
        ("level", _U32),
        ("device_to_host", _U32),
        ("sample_cost", _U64),
        ("certain_offset", _U64),
        ("certain_bytes", _U64),
    )


class RunnerReply(IntEnum):
    """Kinds of replies."""

    READY = 1
    REFUSED = 2
    DONE = 3
    DIED = 4
    DENIED = 5
    BROKEN = 6
    FORGED = 7
    VANISHED = 8
    FAULTED = 9
    FORBIDDEN = 10


class Refusal(IntEnum):
    """The number in a reply `REFUSED`."""

    LINKER = 0
    NO_SOLVE = 1
    DRIVER = 2


class ReplyFrame(ctypes.Structure):
    """The one kind of packet that a runner sends."""

    _fields_ = (
        ("reply", _U32),
        ("number", _U32),
        ("sequence", _U64),
        ("address", _U64),
        ("detail", ctypes.c_char * 256),
    )

    @property
    def is_last(self) -> bool:
        """True when the runner ends after this reply."""
        return self.reply not in {RunnerReply.READY, RunnerReply.REFUSED, RunnerReply.DONE}

    @property
    def text(self) -> str:
        """The detail as text; bytes that are no UTF-8 are replaced."""
        return bytes(self.detail).decode(errors="replace")


def decode_reply(packet: bytes) -> ReplyFrame | None:
    """Return the reply in a packet; None where the packet is no reply."""
    if len(packet) != ctypes.sizeof(ReplyFrame):
        return None
    frame = ReplyFrame.from_buffer_copy(packet)
    return frame if frame.reply in set(RunnerReply) else None
