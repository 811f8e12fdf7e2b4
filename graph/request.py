"""What a user may ask of a run, in one place: options as plain data, and parts passed as Python
objects.

The command line, the keywords of `optimize()`, the graph's public input, `run.json` and the table
in `docs/settings.md` are made from `RunRequest` or held to it by a test: a new option is a field
here, its line in `RunOptions`, and the place that uses it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

from typing_extensions import TypedDict

from cuda_llm.codec import SPARSE
from cuda_llm.components import Components, HardwareContext

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from cuda_llm.agents.protocols import Generator, PlacedAgent, Reflector, Strategy, Tuner
    from cuda_llm.tasks.task import Task
    from cuda_llm.tools.device import Device
    from cuda_llm.tools.judge.bench import Bench

MOST_CANDIDATES = 256
MOST_ROUNDS = 1000
MOST_SEED = 2**32 - 1

L2Choice = Literal["", "cold", "warm"]
"""Empty: what the settings say."""

ObjectiveChoice = Literal["", "geomean", "largest", "worst"]
"""Empty: what the task says, which is `geomean` if nothing."""


@dataclass(frozen=True, kw_only=True)
class OptionText:
    """What a person reads of an option, and what values and settings it takes."""

    help: str
    """One line for `--help` and the table of options."""
    flag: str = ""
    """On the command line, where that is not `--` and the field's name; see `run_options`."""
    metavar: str = ""
    within: tuple[int, int] | None = None
    """Least and most."""
    above_zero: bool = False
    setting: str = ""
    """The setting that decides where the user gives no value."""
    read_later: bool = False
    """The setting is read where the value is needed, not when the request is resolved."""
    shown: str = ""
    """The default as a person reads it, where it is not the field's own."""
    on_command_line: bool = True
    in_benchmark: bool = True
    """Makes sense for a set of tasks."""
    in_graph: bool = True
    """May stand in the input of the graph itself, as LangGraph Studio sends it."""


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Everything that decides a run. Plain data: `run.json` holds it, and a resumed run reads it
    there. Defaults are the product's; the fields' order is that of `cuda-llm run --help`."""

    task: Annotated[str, OptionText(help="Name of a task, or its folder.")]
    device: Annotated[
        str,
        OptionText(
            help="auto, cuda:0, cuda:all, emulated, emulated:GPU as in emulated:RTX 4090, "
            "ray:auto, module:attribute.",
            setting="device",
        ),
    ] = "auto"
    cluster: Annotated[
        str, OptionText(help="Ray cluster: auto, ray://HOST:10001, HOST:6379.", metavar="ADDRESS")
    ] = field(default="", metadata=SPARSE)
    """Part of the text of `device` once the request is resolved, as are the next two."""
    workers: Annotated[
        str, OptionText(help="What of the cluster: H200; H200,RTX 4090; emulated:RTX 3090 Ti.")
    ] = field(default="", metadata=SPARSE)
    max_gpus: Annotated[
        int | None,
        OptionText(help="GPUs at most, of a cluster, cuda:all or cuda:0,1.", metavar="N"),
    ] = field(default=None, metadata=SPARSE)
    l2: Annotated[
        L2Choice,
        OptionText(help="L2 of a GPU when a timed call begins.", setting="l2", shown="cold"),
    ] = ""
    """A modelled device is always cold."""
    objective: Annotated[
        ObjectiveChoice,
        OptionText(
            help="One score of all sizes: their mean, the largest, or the worst.", shown="geomean"
        ),
    ] = ""
    sizes: Annotated[
        tuple[str, ...],
        OptionText(
            help="Time this size, not the task's: every dim, as in M=4096,N=512. Repeatable.",
            flag="--size",
            in_benchmark=False,
            metavar="M=NUMBER,...",
        ),
    ] = ()
    """Empty: the task's own. What is checked for results alone stays as the task has it."""
    weights: Annotated[
        tuple[float, ...],
        OptionText(
            help="How much a size counts in the mean, one for each in order. Repeatable.",
            flag="--weight",
            in_benchmark=False,
        ),
    ] = ()
    """Empty: what the task says, else all alike."""
    generator: Annotated[
        str, OptionText(help="Who writes: auto, llm, playbook, tuner or module:Class.")
    ] = "auto"
    """`auto` is `llm` where a model is named. With `tuner` nobody writes: the tunables that `start`
    declares are searched."""
    model: Annotated[
        str, OptionText(help="Model of any OpenAI-compatible endpoint.", setting="model")
    ] = ""
    reflection_model: Annotated[
        str, OptionText(help="Model of the reflection, if another.", setting="reflection_model")
    ] = ""
    """Empty: the generator's model."""
    base_url: Annotated[
        str,
        OptionText(
            help="Endpoint, as in http://localhost:8000/v1.", setting="base_url", read_later=True
        ),
    ] = ""
    """Empty: what the settings, then OPENAI_BASE_URL say whenever a model is opened. An endpoint is
    the machine's, not the run's."""
    prompts: Annotated[str, OptionText(help="Folder of templates that replace ours by name.")] = ""
    start: Annotated[
        str,
        OptionText(help="A kernel of yours to start from.", metavar="FILE.cu", in_benchmark=False),
    ] = ""
    hints: Annotated[
        tuple[str, ...],
        OptionText(help="What the generator should know. Repeatable.", flag="--hint"),
    ] = ()
    agents: Annotated[
        tuple[str, ...],
        OptionText(
            help="Extra agent: a name or module:attribute, with @STAGE. Repeatable.",
            flag="--agent",
            in_graph=False,
        ),
    ] = ()
    """Without `@stage`: behind its own stage, else `hardware_research`. `-name` leaves out one
    that ships."""
    agent_models: Annotated[
        Mapping[str, str],
        OptionText(
            help="Model that an agent of yours asks, by the agent's name. Repeatable.",
            flag="--agent-model",
            metavar="NAME=MODEL",
            setting="agent_models",
            read_later=True,
        ),
    ] = field(default_factory=dict)
    """Of extra agents, and of a generator or reflector of the user's own; who is not in it asks
    `model`. The settings add those of parts that are in the run and are not named here."""
    candidates: Annotated[int, OptionText(help="Kernels a round.", within=(1, MOST_CANDIDATES))] = 5
    rounds: Annotated[int, OptionText(help="Rounds at most.", within=(1, MOST_ROUNDS))] = 5
    strategy: Annotated[
        str,
        OptionText(
            help="fsr, fsr-paper, best-of-n or module:Class; fsr+elites, fsr+no-critique: switches."
        ),
    ] = "fsr"
    budget_usd: Annotated[
        float | None, OptionText(help="End when this much is spent.", above_zero=True)
    ] = None
    max_tokens: Annotated[
        int | None, OptionText(help="End after this many tokens.", above_zero=True)
    ] = None
    """Of all calls together, in and out."""
    max_minutes: Annotated[
        float | None, OptionText(help="End after this much time.", above_zero=True)
    ] = None
    hardware_context: Annotated[
        HardwareContext, OptionText(help="What prompts say of the GPU.")
    ] = "full"
    components: Annotated[Components, OptionText(help="What prompts may hold.")] = field(
        default_factory=Components
    )
    """On the command line a switch for each, `--history/--no-history`."""
    seed: Annotated[
        int, OptionText(help="The same seed gives the same run.", within=(0, MOST_SEED))
    ] = 0
    out: Annotated[
        str,
        OptionText(
            help="Folder that holds runs.",
            metavar="DIR",
            shown="traces/runs",
            in_benchmark=False,
        ),
    ] = ""
    """Empty: `traces/runs` below the current folder."""
    round_quorum: Annotated[
        int, OptionText(help="Go on when this many of a round are judged; 0 waits for all.")
    ] = 0
    """From 0 to `candidates`."""
    patience: Annotated[
        int,
        OptionText(
            help="Rounds without gain before leaving the structure.", within=(1, MOST_ROUNDS)
        ),
    ] = 2
    tune: Annotated[
        int,
        OptionText(
            help="Tunings tried a round without asking a model.", within=(0, MOST_CANDIDATES)
        ),
    ] = 8
    review: Annotated[
        bool,
        OptionText(
            help="Ask before each round: verdicts, hints, orders; else stop there.",
            in_benchmark=False,
        ),
    ] = False
    """A LangGraph interrupt. Without a terminal the run stops, and resume goes on."""
    replay: Annotated[
        str,
        OptionText(
            help="Repeat a run from its record: no model, no device but a --device named.",
            metavar="RUN",
            in_benchmark=False,
        ),
    ] = ""
    """What is not said is as that run was asked for."""
    run_id: Annotated[
        str,
        OptionText(help="Name of the run and its folder.", on_command_line=False, in_graph=False),
    ] = ""
    """Empty: made from the time and the task."""


class RunOptions(TypedDict, total=False):
    """The options that are plain values wherever they are given, as in `RunRequest`."""

    cluster: str
    workers: str
    max_gpus: int | None
    l2: L2Choice
    objective: ObjectiveChoice
    sizes: Sequence[str]
    weights: Sequence[float]
    base_url: str
    prompts: str
    start: str
    hints: Sequence[str]
    candidates: int
    rounds: int
    budget_usd: float | None
    max_tokens: int | None
    max_minutes: float | None
    hardware_context: HardwareContext
    components: Components
    seed: int
    out: str
    round_quorum: int
    patience: int
    tune: int
    review: bool
    replay: str


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """Objects that replace what the request names. `run.json` keeps only which of them there were:
    to resume such a run they must be passed again."""

    task: "Task | None" = None
    device: "Device | None" = None
    opened_device: "Device | None" = None
    """The one that the request names, open already: it need not be passed again."""
    model: "BaseChatModel | None" = None
    """The generator's."""
    reflection_model: "BaseChatModel | None" = None
    agent_models: "Mapping[str, BaseChatModel]" = field(default_factory=dict)
    """By the name of the agent that asks it, beside the ones that the request names."""
    generator: "Generator | None" = None
    strategy: "Strategy | None" = None
    reflector: "Reflector | None" = None
    tuner: "Tuner | None" = None
    agents: "tuple[PlacedAgent, ...]" = ()
    """Beside the ones that the request names."""
    bench: "Bench | None" = None

    @property
    def given(self) -> Mapping[str, object]:
        """The objects that were passed, by field."""
        return {name: part for name, part in vars(self).items() if part and name != "opened_device"}


NO_OVERRIDES = Overrides()
