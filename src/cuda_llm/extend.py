"""Everything that a part of one's own is written with.

    from cuda_llm.extend import Contribution, Note, Situation, Stage, placed

Whoever runs a search imports from `cuda_llm`; whoever writes a part of one imports from here, and
from nowhere deeper: names and modules below may move, these stay. `docs/extending.md` has an
example of each part.

agent       an async function `(Situation) -> Contribution`, or a compiled LangGraph; `placed` says
            behind which `Stage` it stands. It adds a `Note`, `Hint`s and decisions, and may ask a
            model with `situation.ask`: a `Reply`, or a `CallFailed`.
generator   `Generator`: one `Brief` in, one `Draft` out, or a `NoCode` that says why not.
strategy    `Strategy`: writes `Brief`s, makes the `Choice`, stops. `make_briefs` completes an
            `Assignment`; `choose_fastest`, `passed_by_speed`, `distinct_failures` and
            `at_the_limit` are those of ours. A `Composer` puts two kernels together, too, or says
            by a `CompositionRefused` why they do not fit.
reflector   `Reflector`: the `Attempt`s of a round in, `Contribution` out. Ours is `Reflection`.
tuner       `Tuner`: proposes `Trial`s of declared tunables, spelled by `write_point`. Ours is
            `TunableTuner`.
device      `Device`, which does a `Work` at its `Site`, with its `Session`s (`TimedSession` where
            times are measured). `DescribedDevice` and `ForwardingDevice` are to be subclassed.
task        a folder; `load_task` reads it as a `Task`, `check_task` proves it admissible.

What all of them see is a `Situation`: the `Task`, the `Hardware`, the `RunConfig`, every `Attempt`,
and an `Archive` with sources and `Verdict`s. The modules `outcomes` and `events` hold every kind of
verdict and of event. `encode` and `decode` turn these values into plain JSON and back.
"""

from cuda_llm import outcomes
from cuda_llm.agents.composition import CompositionRefused
from cuda_llm.agents.find_agent import find_agent, placed
from cuda_llm.agents.playbook.tuner import TunableTuner
from cuda_llm.agents.protocols import (
    Agent,
    AgentContext,
    Choice,
    Composer,
    Contribution,
    Generator,
    PlacedAgent,
    Reflector,
    Stage,
    Strategy,
    Trial,
    Tuner,
)
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Note, Situation
from cuda_llm.agents.strategies.acceptance import choose_fastest, passed_by_speed
from cuda_llm.agents.strategies.briefs import Assignment, distinct_failures, make_briefs
from cuda_llm.agents.strategies.builtin import at_the_limit
from cuda_llm.agents.tunables.write import write_point
from cuda_llm.capabilities import Capabilities
from cuda_llm.codec import decode, encode
from cuda_llm.components import EVERYTHING, Components, HardwareContext
from cuda_llm.conversation import Ask, AskModel, Call, CallFailed, Message, Reply, Usage
from cuda_llm.errors import (
    CudaLLMError,
    DeviceLost,
    InfrastructureError,
    MissingError,
    TaskError,
    UsageError,
)
from cuda_llm.graph.runs.replay import ReplayAccount, replay_account
from cuda_llm.graph.state import SearchState
from cuda_llm.graph.toolbox import bench_tools, judge_tools
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware, list_hardware
from cuda_llm.outcomes import CompileFailed, NoCode, Passed, Verdict, WrongResult
from cuda_llm.profile import Bottleneck, LaunchProfile, Profile, SizeTime, TimeSource
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Archive, Attempt, Author, Brief, Draft, DuelResult, Hint, Kind
from cuda_llm.source_tokens import normal_sha
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import Sizes, Task, TaskArgument, Tolerance
from cuda_llm.tools.device import (
    SCRATCH_BYTES,
    Argument,
    Batch,
    CallOptions,
    CallReport,
    ClockReading,
    DescribedDevice,
    Device,
    ForwardingDevice,
    Level,
    Scalar,
    Session,
    Site,
    TimeClass,
    TimedSession,
    Work,
)
from cuda_llm.tools.device.buffers import HOST, Arrays, BufferSpec, PlacedBuffer, Role, Slots
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.judge.admission import check_task
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces import events
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import (
    AttemptJudged,
    Event,
    IncumbentChosen,
    RoundBegan,
    RunFinished,
    RunStarted,
)
from cuda_llm.traces.run_folder import RunFolder

__all__ = [
    "EVERYTHING",
    "HOST",
    "SCRATCH_BYTES",
    "Agent",
    "AgentContext",
    "Archive",
    "Argument",
    "Arrays",
    "Ask",
    "AskModel",
    "Assignment",
    "Attempt",
    "AttemptJudged",
    "Author",
    "Batch",
    "Bottleneck",
    "Brief",
    "BufferSpec",
    "Call",
    "CallFailed",
    "CallOptions",
    "CallReport",
    "Capabilities",
    "Choice",
    "ClockReading",
    "CompileFailed",
    "Compiled",
    "Components",
    "Composer",
    "CompositionRefused",
    "Contribution",
    "CudaLLMError",
    "DescribedDevice",
    "Device",
    "DeviceLost",
    "Draft",
    "DuelResult",
    "Event",
    "ForwardingDevice",
    "Generator",
    "Hardware",
    "HardwareContext",
    "Hint",
    "IncumbentChosen",
    "InfrastructureError",
    "Kind",
    "LaunchProfile",
    "Level",
    "Message",
    "MissingError",
    "NoCode",
    "Note",
    "Passed",
    "PlacedAgent",
    "PlacedBuffer",
    "Profile",
    "Reflection",
    "Reflector",
    "ReplayAccount",
    "Reply",
    "Role",
    "RoundBegan",
    "RunConfig",
    "RunFinished",
    "RunFolder",
    "RunStarted",
    "Scalar",
    "SearchState",
    "Session",
    "Site",
    "Situation",
    "SizeTime",
    "Sizes",
    "Slots",
    "Stage",
    "Strategy",
    "Task",
    "TaskArgument",
    "TaskError",
    "TimeClass",
    "TimeSource",
    "TimedSession",
    "Tolerance",
    "Trial",
    "TunableTuner",
    "Tuner",
    "Usage",
    "UsageError",
    "Verdict",
    "Work",
    "WrongResult",
    "at_the_limit",
    "bench_tools",
    "check_task",
    "choose_fastest",
    "decode",
    "distinct_failures",
    "encode",
    "events",
    "find_agent",
    "find_hardware",
    "judge_tools",
    "list_hardware",
    "list_tasks",
    "load_task",
    "make_briefs",
    "normal_sha",
    "open_device",
    "outcomes",
    "passed_by_speed",
    "placed",
    "read_events",
    "replay_account",
    "write_point",
]
