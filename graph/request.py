"""What a user asks of a run. Plain data: `run.json` holds it, and a resumed run reads it there."""

from dataclasses import dataclass, field
from typing import Literal

from cuda_llm.search import Components, HardwareContext

MOST_CANDIDATES = 256
MOST_ROUNDS = 1000


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Everything that decides a run, as the command line names it. Defaults are the product's."""

    task: str
    """Name of a task, or its folder."""
    device: str = "auto"
    l2: Literal["cold", "warm"] = "cold"
    """What the L2 cache of a GPU holds when a timed call begins; a modelled device is cold."""
    generator: str = "auto"
    """`auto`, `llm`, `playbook` or a dotted path; `auto` is `llm` where a model is named."""
    strategy: str = "fsr"
    """`fsr`, `fsr-paper`, `best-of-n` or a dotted path."""
    agents: tuple[str, ...] = ()
    """Extra agents: `name` or `dotted.path:attribute`, each with `@stage` where it should not
    stand behind `hardware_research`."""
    candidates: int = 5
    rounds: int = 5
    seed: int = 0
    patience: int = 2
    round_quorum: int = 0
    """Reflection starts when this many of a round are judged; 0 waits for all."""
    tune: int = 8
    """Evaluations a round for tunables that candidates declare; 0 switches the tuner off."""
    start: str = ""
    """Path of a kernel to start from."""
    hints: tuple[str, ...] = ()
    model: str = ""
    reflection_model: str = ""
    """Empty: the generator's model."""
    agent_models: dict[str, str] = field(default_factory=dict)
    """Models of agents, generators and reflectors of the user's own, by the part's name; who is not
    in it asks `model`."""
    base_url: str = ""
    """Empty: what OPENAI_BASE_URL says, else the client's own default."""
    prompts: str = ""
    """Folder of templates that replace ours, by name."""
    hardware_context: HardwareContext = "full"
    components: Components = field(default_factory=Components)
    budget_usd: float | None = None
    max_tokens: int | None = None
    """Of all calls together, in and out."""
    max_minutes: float | None = None
    review: bool = False
    """Stop before each round until the run is resumed (a LangGraph interrupt)."""
    out: str = ""
    """Folder that holds runs; empty is `traces/runs` below the current folder."""
    run_id: str = ""
    """Empty: made from the time and the task."""
