"""One candidate on the emulated device."""

import time
from collections.abc import Sequence

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import InfraFailed, LaunchFailed, OutOfMemory, Verdict
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.devices.arena import Layout, SharedMemory
from cuda_llm.tools.devices.device import (
    Argument,
    BufferSpec,
    CallOptions,
    CallReport,
    Level,
    PlacedBuffer,
    Role,
)
from cuda_llm.tools.devices.endings import ending
from cuda_llm.tools.devices.pool import call_slot
from cuda_llm.tools.emulator.tables import Translated
from cuda_llm.tools.runner.process import Runner
from cuda_llm.tools.runner.protocol import CallFrame, ReplyFrame, put_arguments

_LEVELS = {Level.CHECK: 0, Level.ACCOUNT: 1, Level.FULL: 2}
_ROLES = {Role.IN: 0, Role.OUT: 1, Role.INOUT: 2}
_BACK_EDGES_PER_S = 200_000_000
"""More than any machine emulates: time is up before, and only the clock decides."""
