"""Layout of the report memfd in NumPy: the structures of `runtime/emu/report.h`, field by field."""

from enum import IntEnum

import numpy as np

MAGIC = 0x3274726F70657245
NONE = 0xFFFFFFFF
TEXT_OFFSET = 4096
TEXT_BYTES = 61440
LOG_OFFSET = TEXT_OFFSET + TEXT_BYTES
LOG_ENTRIES = 2048
GUARDED_RACES = 4
RACES = 4
FAILED_CALLS = 4
UNITS = 10
"""The pipes of `emu::Pipe`, and the data path."""
TICKS = 16
"""Ticks of a clock cycle."""

FAULT_RECORD = np.dtype(
    [
        ("fault", "u4"),
        ("kernel", "u4"),
        ("site", "u4"),
        ("other_site", "u4"),
        ("other_kernel", "u4"),
        ("basic_block", "u4"),
        ("block", "u4", 3),
        ("thread", "u4", 3),
        ("space", "u4"),
        ("access", "u4"),
        ("other_access", "u4"),
        ("bytes", "u4"),
        ("allocation_kind", "u4"),
        ("allocation_index", "u4"),
        ("allocation_freed", "u4"),
        ("reason", "u4"),
        ("copy_site", "u4"),
        ("copy_state", "u4"),
        ("address", "u8"),
        ("allocation_offset", "i8"),
        ("allocation_bytes", "u8"),
        ("detail", "S256"),
    ],
    align=True,
)
LAUNCH_ERROR = np.dtype(
    [
        ("error", "u4"),
        ("kernel", "u4"),
        ("limit", "u4"),
        ("axis", "u4"),
        ("asked", "u8"),
        ("allowed", "u8"),
        ("dynamic_shared_bytes", "u8"),
        ("static_shared_bytes", "u4"),
        ("most_shared_bytes", "u4"),
        ("grid", "u4", 3),
        ("block", "u4", 3),
    ],
    align=True,
)
FAILED_CALL = np.dtype(
    [("error", "u4"), ("kernel", "u4"), ("times", "u4"), ("call", "S52")], align=True
)
PROGRESS = np.dtype(
    [("in_kernel", "u4"), ("kernel", "u4"), ("basic_block", "u4"), ("block", "u4")], align=True
)
LAUNCH_ENTRY = np.dtype(
    [
        ("kernel", "u4"),
        ("grid", "u4", 3),
        ("block", "u4", 3),
        ("static_shared_bytes", "u4"),
        ("dynamic_shared_bytes", "u4"),
        ("cooperative", "u4"),
        ("block_count", "u4"),
        ("site_count", "u4"),
        ("blocks_total", "u8"),
        ("counters_offset", "u8"),
        ("footprint_bytes", "u8"),
        ("reused_bytes", "u8"),
        ("barriers", "u8"),
        ("threads_run", "u8"),
        ("work", "u8", UNITS),
        ("heaviest", "u8", UNITS),
        ("path_ticks", "u8"),
        ("longest_ticks", "u8"),
        ("worst_line", "u8"),
        ("meetings", "u8"),
        ("path_error", "u8"),
        ("counted_blocks", "u8"),
        ("wave_blocks", "u8"),
        ("shared_line", "u8"),
        ("allocated_bytes", "u8"),
        ("l2_bytes", "u8"),
    ],
    align=True,
)
SITE_COUNTERS = np.dtype(
    [
        ("requests", "u8"),
        ("lanes", "u8"),
        ("sectors", "u8"),
        ("lines", "u8"),
        ("wavefronts", "u8"),
        ("ideal_wavefronts", "u8"),
        ("worst_ways", "u8"),
        ("l2_sectors", "u8"),
        ("dram_sectors", "u8"),
        ("serial", "u8"),
        ("path_ticks", "u8"),
    ],
    align=True,
)
SHARING = np.dtype([("in_block", "u8"), ("in_wave", "u8"), ("again", "u8")], align=True)
REPORT = np.dtype(
    [
        ("magic", "u8"),
        ("bytes", "u8"),
        ("counters_used", "u8"),
        ("launches", "u4"),
        ("logged", "u4"),
        ("counters_overflowed", "u4"),
        ("text_bytes", "u4"),
        ("text_truncated", "u4"),
        ("allocation_failed", "u4"),
        ("refused_bytes", "u8"),
        ("allowed_bytes", "u8"),
        ("copies", "u8"),
        ("pieces", "u8"),
        ("copied_sectors", "u8"),
        ("host_bytes", "u8"),
        ("held_bytes", "u8"),
        ("held_allocations", "u8"),
        ("only_slow", "u8"),
        ("progress", PROGRESS),
        ("launch_error", LAUNCH_ERROR),
        ("fault", FAULT_RECORD),
        ("races", FAULT_RECORD, RACES),
        ("failed_calls", FAILED_CALL, FAILED_CALLS),
        ("guarded", FAULT_RECORD, GUARDED_RACES),
    ],
    align=True,
)
COUNTERS_OFFSET = LOG_OFFSET + LOG_ENTRIES * LAUNCH_ENTRY.itemsize


class Reason(IntEnum):
    """Reason of a fault, numbered as `emu::ReasonNumber`."""

    NONE = 0
    DIFFERENT_BARRIERS = 1
    DIFFERENT_THREAD_COUNTS = 2
    NO_SUCH_BARRIER = 3
    NOT_A_MEMBER = 4
    MISSING_LANES = 5
    ASSERTION = 6
    PHASE_INCOMPLETE = 7
    CLUSTER_INCOMPLETE = 8
    TOO_MANY_ARRIVALS = 9
    NO_SUCH_COUNT = 10
    UNPAIRED_CLUSTER_BARRIER = 11
    EXITED_BLOCK = 12
    NO_TENSOR_MAP = 13
    NO_PROXY_FENCE = 14
    MISSING_WARPS = 15
    DIFFERENT_OPERANDS = 16
    RESERVED_BITS = 17
    NO_PATTERN = 18
    NEGATIVE_START = 19
    DECIDES_ADDRESS = 20
    DECIDES_BRANCH = 21
    DECIDES_ACCESS = 22
    DECIDES_ATOMIC = 23
    DECIDES_COLLECTIVE = 24
    DECIDES_OPERAND = 25
    DECIDES_OUTPUT = 26
    NO_FUNCTION = 27

    @property
    def word(self) -> str:
        """Return its name as facts have it."""
        return self.name.lower().replace("_", "-")


def text_of(raw: bytes) -> str:
    """Decode a fixed-size text field to a printable string."""
    text = bytes(raw).split(b"\0", 1)[0].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)
