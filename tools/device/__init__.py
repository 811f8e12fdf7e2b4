"""What a device is, and the values that travel to and from one."""

from cuda_llm.tools.device.device import CompilingDevice, Device, GrowingDevice, P, Site, T
from cuda_llm.tools.device.session import (
    MOST_OPENING_PART,
    SCRATCH_BYTES,
    Argument,
    Batch,
    CallOptions,
    CallReport,
    ClockReading,
    Level,
    SamplingSession,
    Scalar,
    Session,
    TimeClass,
    TimedSession,
    opening_bytes,
)

__all__ = [
    "MOST_OPENING_PART",
    "SCRATCH_BYTES",
    "Argument",
    "Batch",
    "CallOptions",
    "CallReport",
    "ClockReading",
    "CompilingDevice",
    "Device",
    "GrowingDevice",
    "Level",
    "P",
    "SamplingSession",
    "Scalar",
    "Session",
    "Site",
    "T",
    "TimeClass",
    "TimedSession",
    "opening_bytes",
]
