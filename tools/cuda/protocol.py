"""The frames of `native/frames.h`, `report.h` and `seal.h` in Python.

Every frame has a fixed size and arrives as a single packet, so nothing that a runner sends decides
how much is read. Replies are those of every runner (`tools/device/protocol.py`), and
`put_arguments(frame.solve, ...)` fills in the arguments (`tools/device/arguments.py`).
"""

import ctypes
from enum import IntEnum, IntFlag

from cuda_llm.tools.device.protocol import MAX_FLOATS, MAX_INTEGERS

MAX_REGIONS = MAX_INTEGERS
MAX_STEPS = 256
ALIGNMENT = 16
"""Alignment in bytes of every offset in an ArmFrame and of the slot stride."""
TAG_WORDS = 65536
"""Four-byte words of an output that go into its tag, at most."""
REPORT_MAGIC = 0x3174727075677564
LOG_ENTRIES = 1024
TEXT_BYTES = 64 << 10
MAX_TAGS = MAX_STEPS * MAX_REGIONS
NO_TEXT = 0xFFFFFFFF

_U8, _U32, _U64 = ctypes.c_uint8, ctypes.c_uint32, ctypes.c_uint64


class Order(IntEnum):
    """Kinds of orders to a runner."""

    START = 1
    CALL = 2
    CAPTURE = 3
    ARM = 4
    GO = 5


class SharedBy(IntEnum):
    """The way in which runner and GPU host process share an arena: CUDA IPC or host memory."""

    IPC = 0
    HOST = 1


class Captured(IntEnum):
    """The number of the reply to a CaptureFrame."""

    YES = 0
    HOST_INCLUSIVE = 1


class Armed(IntEnum):
    """The number of the reply to an ArmFrame."""

    YES = 0
    NOT_STEPWISE = 1


class Forbidden(IntEnum):
    """The number of a reply FORBIDDEN."""

    LARGE_COPY = 1
    HOST_COPY = 2
    LARGE_COPIES = 3
    UNJOINED = 4


class ArmFlag(IntFlag):
    """Parts of each step of a batch: flush of L2, call of `solve`, host part, stepwise keys."""

    FLUSH = 1
    SOLVE = 2
    HOST = 4
    STEPWISE = 8


class EntryKind(IntEnum):
    """Kind of an entry of the launch log: kernel, copy or fill."""

    KERNEL = 0
    COPY = 1
    SET = 2


class Head(ctypes.Structure):
    """Head of every order: its kind and sequence number."""

    _fields_ = (("kind", _U32), ("pad", _U32), ("sequence", _U64))


class Solve(ctypes.Structure):
    """Arguments and scratch memory of a call of `solve`."""

    _fields_ = (
        ("integers", _U64 * MAX_INTEGERS),
        ("floats", _U64 * MAX_FLOATS),
        ("pointers", _U32),
        ("device_to_host", _U32),
        ("scratch_offset", _U64),
        ("scratch_bytes", _U64),
        ("scratch_quota", _U64),
        ("scratch_seed", _U64),
        ("copied_bytes", _U64),
    )


class GpuStartFrame(ctypes.Structure):
    """Open the arena, load the candidate."""

    _fields_ = (
        ("head", Head),
        ("handle", _U8 * 64),
        ("flush_handle", _U8 * 64),
        ("arena_bytes", _U64),
        ("flush_bytes", _U64),
        ("shared_by", _U32),
        ("pad", _U32),
        ("candidate", ctypes.c_char * 1024),
    )


class GpuCallFrame(ctypes.Structure):
    """Call `solve` once and wait for all it launched."""

    _fields_ = (("head", Head), ("solve", Solve))


class CaptureFrame(ctypes.Structure):
    """Call `solve` once on slot 0, then capture a call for each slot."""

    _fields_ = (
        ("head", Head),
        ("solve", Solve),
        ("slot_stride", _U64),
        ("slots", _U32),
        ("pad", _U32),
    )


class SealedInput(ctypes.Structure):
    """An input that is opened before a call."""

    _fields_ = (
        ("offset", _U64),
        ("sealed_offset", _U64),
        ("bytes", _U64),
        ("index", _U32),
        ("pad", _U32),
    )


class TaggedOutput(ctypes.Structure):
    """An output that is tagged after a call."""

    _fields_ = (("offset", _U64), ("bytes", _U64), ("index", _U32), ("pad", _U32))


class ArmFrame(ctypes.Structure):
    """Put a batch together; tag of output o in step i: word `i * output_count + o`."""

    _fields_ = (
        ("head", Head),
        ("steps", _U32),
        ("flags", _U32),
        ("order", _U8 * MAX_STEPS),
        ("key", _U32 * 4),
        ("input_count", _U32),
        ("output_count", _U32),
        ("inputs", SealedInput * MAX_REGIONS),
        ("outputs", TaggedOutput * MAX_REGIONS),
        ("slot_stride", _U64),
        ("tag_offset", _U64),
        ("copied_bytes", _U64),
    )


class GoFrame(ctypes.Structure):
    """Run the batch that was put together last."""

    _fields_ = (("head", Head),)


class LogEntry(ctypes.Structure):
    """A kernel launch, copy or fill in the launch log."""

    _fields_ = (
        ("kind", _U32),
        ("name", _U32),
        ("grid", _U32 * 3),
        ("block", _U32 * 3),
        ("cluster", _U32 * 3),
        ("static_shared_bytes", _U32),
        ("dynamic_shared_bytes", _U32),
        ("registers", _U32),
        ("local_bytes", _U32),
        ("cooperative", _U32),
        ("blocks_per_sm", _U32),
        ("pad", _U32),
        ("bytes", _U64),
    )


class RefusedCall(ctypes.Structure):
    """A launch that CUDA refused; `error` 0: none."""

    _fields_ = (
        ("error", _U32),
        ("limit", _U32),
        ("axis", _U32),
        ("static_shared_bytes", _U32),
        ("asked", _U64),
        ("allowed", _U64),
        ("dynamic_shared_bytes", _U64),
        ("grid", _U32 * 3),
        ("block", _U32 * 3),
        ("most_shared_bytes", _U32),
        ("pad", _U32),
        ("kernel", ctypes.c_char * 184),
    )


class KeyRelease(ctypes.Structure):
    """Shared words through which a stepwise batch asks for and receives its keys."""

    _fields_ = (("asked", _U64), ("handed", _U64), ("key", _U32 * 2))


class Report(ctypes.Structure):
    """Launches, allocations and tags that the shim reports of the last call or capture. The
    candidate may have written it."""

    _fields_ = (
        ("magic", _U64),
        ("bytes", _U64),
        ("launches", _U32),
        ("entries", _U32),
        ("logged", _U32),
        ("text_used", _U32),
        ("allocation_failed", _U32),
        ("synchronisations", _U32),
        ("waiting", _U32),
        ("pad", _U32),
        ("refused_bytes", _U64),
        ("allowed_bytes", _U64),
        ("peak_bytes", _U64),
        ("copies", _U64),
        ("host_bytes", _U64),
        ("refused", RefusedCall),
        ("log", LogEntry * LOG_ENTRIES),
        ("text", ctypes.c_char * TEXT_BYTES),
        ("tags", _U64 * MAX_TAGS),
        ("key_release", KeyRelease),
    )


class SealRegion(ctypes.Structure):
    """Device addresses of the bytes that a kernel of `seal.cu` reads and writes."""

    _fields_ = (("to", _U64), ("from_", _U64), ("bytes", _U64), ("index", _U32), ("pad", _U32))


class SealCall(ctypes.Structure):
    """The only parameter of the kernels `open_inputs` and `tag_outputs`, passed by value."""

    _fields_ = (
        ("regions", SealRegion * MAX_REGIONS),
        ("key", _U32 * 2),
        ("slot", _U32),
        ("count", _U32),
        ("handed", _U32),
        ("pad", _U32),
    )


class SlotsCall(ctypes.Structure):
    """The only parameter of the kernels `seal_slots` and `tag_slots`: a column of slots, with a row
    for each slot."""

    _fields_ = (
        ("column", _U64),
        ("column_stride", _U64),
        ("rows", _U64),
        ("row_stride", _U64),
        ("bytes", _U64),
        ("index", _U32),
        ("count", _U32),
        ("keys", _U32 * 2 * MAX_STEPS),
        ("slots", _U8 * MAX_STEPS),
    )
