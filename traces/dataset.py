"""Trajectories of runs as a dataset: for each candidate what a model was sent, what it answered,
and what the judge found.

A row is one judged candidate, in the order of the run. Keys and paths of the machine are left out;
`DATASET_SCHEMA` grows with each change of a column.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args, get_type_hints

from cuda_llm.atomic_file import write_atomically
from cuda_llm.codec import encode
from cuda_llm.conversation import Message, Usage
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.redaction import redact
from cuda_llm.search import Attempt
from cuda_llm.traces.event_table import CHUNK
from cuda_llm.traces.events import RunStarted
from cuda_llm.traces.files import cannot_write
from cuda_llm.traces.history import read_history
from cuda_llm.traces.run_folder import RunFolder

if TYPE_CHECKING:
    import pyarrow

DATASET_SCHEMA = 1
ROWS = "trajectories"
CARD = "README.md"
SCHEMA = "schema.json"
ABOUT = """\
A verdict is that of cuda-llm's judge: every element compared with a float64 reference at declared,
edge and hidden sizes. Times are `measured` on a GPU or `modelled` on an emulated device; never
compare one with the other. Prompts of reflection and of other agents are no rows: what those agents
found stands in the prompts of the next round. Keys and absolute paths are replaced.
"""
HIDDEN_PATH = "(path)"
_PATHS = re.compile(
    r"(?<![\w.:/])/(?:home|root|Users|tmp|var|usr|opt|mnt|media|srv|data|scratch|work|private|run|etc)"
    r"(?:/[^\s\"'`,;:(){}\[\]<>]*)+"
)
"""Absolute paths below the folders in which files of users, of programs and of compilers lie."""


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One judged candidate of a run."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"use_attribute_docstrings": True}
    """The docstrings of the fields are the descriptions of the schema."""
    run: str
    """Id of the run."""
    task: str
    """Name of the task."""
    device: str
    """Device that judged, e.g. `emulated H200`."""
    hardware: str
    """GPU that the kernel is for."""
    time_source: str
    """`measured` on a GPU, `modelled` on an emulated device: never compare one with the other."""
    strategy: str
    """Name of the search strategy."""
    seed: int
    """Seed of the run."""
    round: int
    """Round of the candidate, from 1; 0 for the user's own kernel."""
    candidate: str
    """Id of the candidate within its run."""
    kind: str
    """What the candidate was ordered for: a new kernel, a fix or an improvement of its parent, a
    trial of tunables ..."""
    parent: str | None
    """Id of the candidate that this one is made from."""
    second: str | None
    """Id of the candidate that is shown beside the parent, or put together with it."""
    written_by: str
    """`model`, `playbook` or `human`."""
    model: str
    """Model that answered; empty where none was asked."""
    messages: tuple[Message, ...]
    """Prompt; empty where no model was asked."""
    reasoning: str
    """Reasoning that the model sent apart from its answer."""
    reply: str
    """Answer of the model."""
    input_tokens: int
    """Tokens of the prompt."""
    output_tokens: int
    """Tokens of the answer, reasoning included."""
    usd: float | None
    """Price of the call in US dollars; None where it is not known."""
    source: str
    """CUDA source that was judged; empty where the answer held none."""
    tunables: str
    """Values of the kernel's tunables by name, as JSON."""
    verdict: str
    """Stable code of the verdict."""
    summary: str
    """The verdict in one line."""
    passed: bool
    """Whether the kernel is right in every check that was made."""
    speedup: float | None
    """Speed-up over the task's baseline, all timed sizes as one score; None unless it passed."""
    spread: float
    """Largest relative half-width of an interval around a time."""
    times_us: tuple[float, ...]
    """Time at each timed size in us; empty unless the kernel passed."""


def read_trajectories(run: RunFolder) -> Iterator[Trajectory]:
    """Yield a row for each judged candidate of a run. Raises UsageError for a run that cannot be
    read."""
    history, _ = read_history(run)
    started = history.started
    if started is None:
        raise UsageError(f"{run.path}: the run has no beginning; expected the folder of a run")
    for attempt in history.attempts.values():
        yield trajectory_of(run, started, attempt)


def trajectory_of(run: RunFolder, started: RunStarted, attempt: Attempt) -> Trajectory:
    """Return the row of one candidate, without keys and paths."""
    call = f"candidates/{attempt.id}"
    reply = run.load_reply(call)
    usage = Usage() if reply is None else reply.usage
    row = Trajectory(
        run=run.name,
        task=started.task,
        device=started.device,
        hardware=started.hardware,
        time_source=started.time_source,
        strategy=started.strategy,
        seed=started.seed,
        round=attempt.round,
        candidate=attempt.id,
        kind=attempt.kind,
        parent=attempt.parent,
        second=attempt.second,
        written_by=attempt.written_by,
        model="" if reply is None else reply.model or started.model,
        messages=() if reply is None else run.prompt(call),
        reasoning="" if reply is None else reply.reasoning,
        reply="" if reply is None else reply.text,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        usd=usage.usd,
        source=run.source(attempt.id) if attempt.source_sha else "",
        tunables=json.dumps(dict(attempt.tunables), sort_keys=True),
        verdict=attempt.code,
        summary=attempt.summary,
        passed=attempt.passed,
        speedup=attempt.speedup,
        spread=attempt.spread,
        times_us=attempt.times_us,
    )
    return without_traces_of_the_machine(row)


def without_traces_of_the_machine(row: Trajectory) -> Trajectory:
    """Return the row without keys, and without absolute paths."""

    def clean(value: Any) -> Any:
        match value:
            case str():
                return _PATHS.sub(HIDDEN_PATH, redact(value))
            case Message():
                return Message(role=value.role, text=clean(value.text))
            case tuple():
                return tuple(map(clean, value))
            case _:
                return value

    return Trajectory(**{one.name: clean(getattr(row, one.name)) for one in fields(row)})


def schema_of_rows() -> dict[str, Any]:
    """Return the JSON schema of a row, with what each column means."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Trajectory).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def write_dataset(runs: Sequence[RunFolder], folder: Path, to: Literal["jsonl", "parquet"]) -> int:
    """Write the rows of the runs, their schema and a card into a folder; return how many rows.

    Raises MissingError for Parquet without pyarrow, UsageError for a run that cannot be read and a
    folder that cannot be written.
    """
    counted: Counter[tuple[str, ...]] = Counter()

    def rows() -> Iterator[Trajectory]:
        for run in runs:
            for row in read_trajectories(run):
                counted[row.task, row.device, row.time_source, row.verdict] += 1
                yield row

    write = write_parquet if to == "parquet" else write_jsonl
    path = folder / f"{ROWS}.{to}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(rows(), path)
        write_atomically(folder / SCHEMA, json.dumps(schema_of_rows(), indent=2) + "\n")
        write_atomically(folder / CARD, card_of(counted, len(runs), path.name))
    except OSError as error:
        raise cannot_write(folder, error) from None
    return counted.total()


def write_jsonl(rows: Iterable[Trajectory], path: Path) -> None:
    """Write a JSON object a line; the file appears when it is whole."""
    scratch = path.with_suffix(".part")
    with scratch.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(encode(row), ensure_ascii=False) + "\n")
    scratch.replace(path)


def write_parquet(rows: Iterable[Trajectory], path: Path) -> None:
    """Write a Parquet file; the file appears when it is whole."""
    try:
        import pyarrow.parquet
    except ImportError:
        remedy = "use --to jsonl, or install it: pip install 'cuda-llm[parquet]'"
        raise MissingError("Parquet needs pyarrow", remedy) from None
    schema = parquet_schema()
    scratch = path.with_suffix(".part")
    with pyarrow.parquet.ParquetWriter(scratch, schema) as writer:
        for some in batched(rows):
            table = pyarrow.Table.from_pylist([encode(row) for row in some], schema=schema)
            writer.write_table(table)
    scratch.replace(path)


def parquet_schema() -> "pyarrow.Schema":
    """Return the types of the columns."""
    import pyarrow

    text = pyarrow.string()
    types: dict[Any, pyarrow.DataType] = {
        int: pyarrow.int64(),
        float: pyarrow.float64(),
        bool: pyarrow.bool_(),
        str: text,
        tuple[float, ...]: pyarrow.list_(pyarrow.float64()),
        tuple[Message, ...]: pyarrow.list_(pyarrow.struct([("role", text), ("text", text)])),
    }
    return pyarrow.schema(
        [
            (name, types[get_args(kind)[0] if NoneType in get_args(kind) else kind])
            for name, kind in get_type_hints(Trajectory).items()
            if name in {one.name for one in fields(Trajectory)}
        ]
    )


def batched(rows: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """Yield the rows in lists that fit into memory."""
    left = iter(rows)
    while some := list(islice(left, CHUNK)):
        yield some


def card_of(counted: Mapping[tuple[str, ...], int], runs: int, file: str) -> str:
    """Return the dataset card: what the rows are, how many there are, and what they do not say."""
    total = sum(counted.values())
    lines = [
        "---",
        "configs:",
        "- config_name: default",
        f"  data_files: {file}",
        "---",
        "# Trajectories of CUDA kernel searches",
        "",
        f"{total:,} judged candidates of {runs:,} runs of cuda-llm, a row each; "
        f"schema {DATASET_SCHEMA}, in `{SCHEMA}`.",
        "",
        *ABOUT.splitlines(),
        "",
        "| task | device | times | verdict | rows |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(key)} | {many:,} |" for key, many in sorted(counted.items())),
        "",
        "| column | meaning |",
        "|---|---|",
    ]
    for name, about in schema_of_rows()["properties"].items():
        lines.append(f"| `{name}` | {' '.join(about['description'].split())} |")
    return "\n".join(lines) + "\n"
