"""The configuration of a run: every option once, with its type, bounds, default and help text.

The command line, the keywords of `optimize()`, the input of the graph and `run.json` are made from
the fields of `RunConfig`. A new option is a field here and the place that uses it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from cuda_llm.components import Component, Components, HardwareContext
from cuda_llm.errors import UsageError, nearest
from cuda_llm.profile import Objective

MOST_CANDIDATES = 256
MOST_ROUNDS = 1000
MOST_SEED = 2**32 - 1
LONGEST_SHOWN = 60
"""Characters of a refused value that its message shows."""

_WORDS: Mapping[str, str] = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a number above 0",
    "greater_than": "a number above 0",
    "bool_type": "True or False",
    "string_type": "text",
    "string_pattern_mismatch": "text that is not blank",
    "tuple_type": "a list",
    "dict_type": "a dict of texts",
}
"""What an option takes, by pydantic's name of why a value does not fit."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """What the command line, the settings and the benchmark know of a field beyond its type."""

    flag: str = ""
    """On the command line, where that is not `--` and the field's name."""
    metavar: str = ""
    setting: Literal["", "read at the start", "read when needed"] = ""
    """Whether the setting of the same name decides where the user gives no value, and when."""
    shown: str = ""
    """The default as a person reads it, where it is not the field's own."""
    on_command_line: bool = True
    in_benchmark: bool = True
    """Makes sense for a set of tasks."""
    ends_run: bool = False
    """Ends a run early; None never does. A replay ends with its record instead."""


PLAIN = Option()
NotBlank = Annotated[str, Field(pattern=r"\S")]
AboveZero = Field(gt=0, allow_inf_nan=False)


class GraphInput(BaseModel):
    """The options that the graph itself takes as its input, as LangGraph Studio sends them."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        defer_build=True,
        json_schema_extra={"required": ["task"]},
    )

    task: Annotated[str, Field(description="Name of a task, or its folder.")] = ""
    """Empty only beside `replay`, which knows its task."""
    device: Annotated[
        str,
        Field(
            description="auto, cuda:0, cuda:all, emulated, emulated:GPU as in emulated:RTX 4090, "
            "ray:auto, FILE.py:NAME."
        ),
        Option(setting="read at the start"),
    ] = "auto"
    l2: Annotated[
        Literal["cold", "warm"],
        Field(description="L2 of a GPU when a timed call begins."),
        Option(setting="read at the start"),
    ] = "cold"
    """A modelled device is always cold."""
    objective: Annotated[
        Objective | None,
        Field(description="One score of all sizes: their mean, the largest, or the worst."),
        Option(shown="geomean"),
    ] = None
    """None: what the task says, which is `geomean` if nothing."""
    sizes: Annotated[
        tuple[str, ...],
        Field(
            description="Time this size, not the task's: every dim, as in M=4096,N=512. Repeatable."
        ),
        Option(flag="--size", metavar="M=NUMBER,...", in_benchmark=False),
    ] = ()
    """Empty: the task's own. What is checked for results alone stays as the task has it."""
    weights: Annotated[
        tuple[float, ...],
        Field(description="How much a size counts in the mean, one for each in order. Repeatable."),
        Option(flag="--weight", in_benchmark=False),
    ] = ()
    """Empty: what the task says, else all alike."""
    generator: Annotated[
        str, Field(description="Who writes: auto, llm, playbook, tuner or FILE.py:NAME.")
    ] = "auto"
    """`auto` is `llm` where a model is named. With `tuner` nobody writes: the tunables that `start`
    declares are searched."""
    model: Annotated[
        str,
        Field(description="Model of any OpenAI-compatible endpoint."),
        Option(setting="read at the start"),
    ] = ""
    reflection_model: Annotated[
        str,
        Field(description="Model of the reflection, if another."),
        Option(setting="read at the start"),
    ] = ""
    """Empty: the generator's model."""
    base_url: Annotated[
        str,
        Field(description="Endpoint, as in http://localhost:8000/v1."),
        Option(setting="read when needed"),
    ] = ""
    """Empty: what the settings, then OPENAI_BASE_URL say whenever a model is opened. An endpoint is
    the machine's, not the run's."""
    prompts: Annotated[str, Field(description="Folder of templates that replace ours by name.")] = (
        ""
    )
    start: Annotated[
        str,
        Field(description="A kernel of yours to start from."),
        Option(metavar="FILE.cu", in_benchmark=False),
    ] = ""
    hints: Annotated[
        tuple[NotBlank, ...],
        Field(description="What the generator should know. Repeatable."),
        Option(flag="--hint"),
    ] = ()
    agent_models: Annotated[
        Mapping[NotBlank, NotBlank],
        Field(description="Model that an agent of yours asks, by the agent's name. Repeatable."),
        Option(flag="--agent-model", metavar="NAME=MODEL", setting="read when needed"),
    ] = {}
    """Of extra agents, and of a generator or reflector of the user's own; who is not in it asks
    `model`. The settings add those of parts that are in the run and are not named here."""
    candidates: Annotated[
        int,
        Field(
            ge=1,
            le=MOST_CANDIDATES,
            description="Kernels a round: written, or tried by generator tuner.",
        ),
    ] = 5
    rounds: Annotated[int, Field(ge=1, le=MOST_ROUNDS, description="Rounds at most.")] = 5
    strategy: Annotated[
        str,
        Field(
            description="fsr, fsr-paper, best-of-n or FILE.py:NAME; fsr+no-pairs, fsr+no-critique: "
            "switches."
        ),
    ] = "fsr"
    budget_usd: Annotated[
        Annotated[float, AboveZero] | None,
        Field(description="End when this much is spent."),
        Option(ends_run=True),
    ] = None
    max_tokens: Annotated[
        Annotated[int, AboveZero] | None,
        Field(description="End after this many tokens."),
        Option(ends_run=True),
    ] = None
    """Of all calls together, in and out."""
    max_minutes: Annotated[
        Annotated[float, AboveZero] | None,
        Field(description="End after this much time."),
        Option(ends_run=True),
    ] = None
    hardware_context: Annotated[
        HardwareContext, Field(description="What prompts say of the GPU.")
    ] = "full"
    without: Annotated[
        tuple[Component, ...],
        Field(
            description="What prompts leave out: history, hints, profile, baseline, host_code, "
            "diversity. Repeatable."
        ),
    ] = ()
    seed: Annotated[
        int, Field(ge=0, le=MOST_SEED, description="The same seed gives the same run.")
    ] = 0
    out: Annotated[
        str, Field(description="Folder that holds runs."), Option(metavar="DIR", in_benchmark=False)
    ] = "traces/runs"
    patience: Annotated[
        int,
        Field(
            ge=1,
            le=MOST_ROUNDS,
            description="Rounds without a gain before other structures are tried.",
        ),
    ] = 2
    """After twice as many the search stops."""
    tune: Annotated[
        int,
        Field(
            ge=0, le=MOST_CANDIDATES, description="Tunings tried a round beside written kernels."
        ),
    ] = 8
    """0 where nothing reads declared tunables. With generator `tuner`, `candidates` counts."""
    review: Annotated[
        bool,
        Field(description="Ask before each round: verdicts, hints, orders; else stop there."),
        Option(in_benchmark=False),
    ] = False
    """A LangGraph interrupt. Without a terminal the run stops, and resume goes on."""
    strict: Annotated[
        bool,
        Field(description="Races that change no result are DATA_RACE, too."),
        Option(in_benchmark=False),
    ] = False
    """`if (*p < v) atomicMax(p, v)`: else a note on the verdict."""
    replay: Annotated[
        str,
        Field(description="Repeat a run from its record: no model, no device but one named."),
        Option(metavar="RUN", in_benchmark=False),
    ] = ""
    """What nobody gives is as that run was asked for."""

    @field_validator("*", mode="before")
    @classmethod
    def as_plain(cls, value: object) -> object:
        """Return NumPy's numbers as Python's, and a list as the tuple that it becomes."""
        if isinstance(value, list):
            return tuple(value)
        if isinstance(value, bool) or not isinstance(value, Real):
            return value
        return int(value) if isinstance(value, Integral) else float(value)

    @field_validator("base_url")
    @classmethod
    def as_address(cls, url: str) -> str:
        """Return the address of an endpoint. Raises UsageError for what is none, or holds a key."""
        parts = urlsplit(url)
        if url and (parts.scheme not in {"http", "https"} or not parts.hostname):
            raise UsageError(
                f"--base-url {url}: expected an address as in http://localhost:8000/v1"
            )
        if parts.username or parts.password or parts.query:
            # The address is kept in run.json.
            held = "a query" if parts.query else "a password"
            raise UsageError(f"--base-url holds {held}; put the key into OPENAI_API_KEY instead")
        return url

    @property
    def components(self) -> Components:
        """What prompts may hold; a strategy may take more away, never add."""
        return Components(**dict.fromkeys(self.without, False))

    def changed(self, **changes: Any) -> Self:
        """Return the configuration with other values, which are checked as all are."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return read_config({**given, **changes}, type(self), spell=as_option)


class RunConfig(GraphInput):
    """Everything that decides a run. Plain data: `run.json` holds it, and a resumed run reads it
    there. `model_fields_set` names what somebody gave; the rest settings decide, or a replay's
    record."""

    agents: Annotated[
        tuple[str, ...],
        Field(description="Extra agent: a name or FILE.py:NAME, with @STAGE. Repeatable."),
        Option(flag="--agent"),
    ] = ()
    """Without `@stage`: behind its own stage, else `hardware_research`. `-name` leaves out one
    that ships."""
    run_id: Annotated[
        str, Field(description="Name of the run and its folder."), Option(on_command_line=False)
    ] = ""
    """Empty: made from the time and the task."""


NO_VALUE = "none"
"""Spells the empty value of an option that may have none, where a value is written as text."""


def read_text(name: str, text: str) -> Any:
    """Return the value of a field that is written as one text, as `--sweep` takes it: `3`, `full`.

    `none` is the empty value of a field that may be empty; several values of a repeatable option
    have `+` between them, as in `history+hints`. Text that is no number where the field takes one
    is returned as it is, for `read_config` to refuse. Raises UsageError for pairs that are none.
    """
    kind = RunConfig.model_fields[name].annotation
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Mapping:
        return dict(read_pairs(name, [] if text == NO_VALUE else text.split("+")))
    if origin is tuple:
        return [] if text == NO_VALUE else [_as_number(inner[0], one) for one in text.split("+")]
    if type(None) in inner and text == NO_VALUE:
        return None
    return _as_number(kind, text)


def _as_number(kind: Any, text: str) -> Any:
    """Return the text as the number that the type takes; the text itself where it takes none."""
    for number in (int, float):
        if _takes(kind, number):
            try:
                return number(text)
            except ValueError:
                return text
    return text


def _takes(kind: Any, number: type) -> bool:
    """Return whether a type is, or may be, this type of number."""
    return kind is number or any(_takes(one, number) for one in get_args(kind))


def read_pairs(name: str, entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split NAME=MODEL entries of a field into pairs. Raises UsageError."""
    seen = set()
    for entry in entries:
        key, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"{flag_of(name)} {entry}: expected {option_of(name).metavar}")
        if key in seen:
            raise UsageError(f"{flag_of(name)} {entry}: {key} has one already")
        seen.add(key)
        yield key, value


def option_of(name: str) -> Option:
    """Return what the command line knows of a field."""
    found = RunConfig.model_fields[name].metadata
    return next((one for one in found if isinstance(one, Option)), PLAIN)


def flag_of(name: str) -> str:
    """Return a field's name on the command line."""
    return option_of(name).flag or f"--{name.replace('_', '-')}"


Config = TypeVar("Config", bound=GraphInput)
Place = tuple[str | int, ...]
"""Index or key of a value inside its field; empty for the field itself."""
Spell = Callable[[str, Place, object], str]
"""Writes field, place and value as whoever gave them would."""


def shown(value: object) -> str:
    """Return a value in a few characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def as_keyword(name: str, place: Place, value: object) -> str:
    """Spell a value as Python does: `hints[1]=3`."""
    return f"{name}{''.join(f'[{one!r}]' for one in place)}={shown(value)}"


def as_option(name: str, place: Place, value: object) -> str:
    """Spell a value as on the command line: `--hint 3`."""
    plain = f"{value:g}" if isinstance(value, float) else str(value)
    key = f"{place[0]}=" if place and isinstance(place[0], str) else ""
    return f"{flag_of(name)} {key}{plain or repr(plain)}"


def read_config(
    given: Mapping[str, Any], kind: type[Config], *, spell: Spell = as_keyword
) -> Config:
    """Build a configuration from plain data by field name, as Python or JSON have it.

    Raises UsageError naming the first option that does not fit, its value and what is allowed.
    """
    try:
        return kind.model_validate(dict(given))
    except ValidationError as refused:
        first = refused.errors()[0]
    name, *place = first["loc"]
    if first["type"] == "extra_forbidden":
        raise UsageError(f"a run has no option {name!r}; {nearest(str(name), kind.model_fields)}")
    inside = tuple(one for one in place if one != "[key]")
    raise UsageError(f"{spell(str(name), inside, first['input'])}: expected {_allowed(first)}")


def _allowed(refused: Mapping[str, Any]) -> str:
    """Describe what would fit where pydantic refused a value."""
    limits = RunConfig.model_fields[refused["loc"][0]].metadata
    least = next((one.ge for one in limits if hasattr(one, "ge")), None)
    most = next((one.le for one in limits if hasattr(one, "le")), None)
    if least is not None:
        return f"a whole number from {least}" + (f" to {most:,}" if most is not None else "")
    if refused["type"] == "literal_error":
        return str(refused["ctx"]["expected"])
    return _WORDS[refused["type"]]
