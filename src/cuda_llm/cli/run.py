"""`cuda-llm run`: write, prove and speed up a kernel."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from cuda_llm.cli.run_end import watch_to_the_end

Option = typer.Option


def run(
    task: Annotated[str, typer.Argument(help="Name of a task, or its folder.")],
    device: Annotated[
        str,
        Option(
            help="auto, cuda:0, cuda:all, emulated, emulated:GPU as in emulated:RTX 4090, "
            "module:attribute."
        ),
    ] = "auto",
    l2: Annotated[
        Literal["cold", "warm"] | None,
        Option("--l2", help="L2 of a GPU when a timed call begins.", show_default="cold"),
    ] = None,
    generator: Annotated[
        str, Option(help="Who writes: auto, llm, playbook or module:Class.")
    ] = "auto",
    model: Annotated[str, Option(help="Model of any OpenAI-compatible endpoint.")] = "",
    reflection_model: Annotated[str, Option(help="Model of the reflection, if another.")] = "",
    base_url: Annotated[str, Option(help="Endpoint, as in http://localhost:8000/v1.")] = "",
    prompts: Annotated[str, Option(help="Folder of templates that replace ours by name.")] = "",
    start: Annotated[str, Option(help="A kernel of yours to start from.", metavar="FILE.cu")] = "",
    hint: Annotated[
        list[str] | None, Option(help="What the generator should know. Repeatable.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        Option(help="Extra agent: a name or module:attribute, with @STAGE. Repeatable."),
    ] = None,
    candidates: Annotated[int, Option(help="Kernels a round.")] = 5,
    rounds: Annotated[int, Option(help="Rounds at most.")] = 5,
    strategy: Annotated[str, Option(help="fsr, fsr-paper, best-of-n or module:Class.")] = "fsr",
    budget_usd: Annotated[float | None, Option(help="End when this much is spent.")] = None,
    max_tokens: Annotated[int | None, Option(help="End after this many tokens.")] = None,
    max_minutes: Annotated[float | None, Option(help="End after this much time.")] = None,
    hardware_context: Annotated[
        Literal["full", "name", "none"], Option(help="What prompts say of the GPU.")
    ] = "full",
    history: Annotated[bool, Option("--history/--no-history", help="Tell what was tried.")] = True,
    hints: Annotated[bool, Option("--hints/--no-hints", help="Tell what was learned.")] = True,
    profile: Annotated[bool, Option("--profile/--no-profile", help="Tell what limits.")] = True,
    baseline: Annotated[bool, Option("--baseline/--no-baseline", help="Show the baseline.")] = True,
    host_code: Annotated[
        bool, Option("--host-code/--no-host-code", help="Show how solve is called.")
    ] = True,
    diversity: Annotated[
        bool, Option("--diversity/--no-diversity", help="Each of a round tries another way.")
    ] = True,
    seed: Annotated[int, Option(help="The same seed gives the same run.")] = 0,
    out: Annotated[
        str, Option(help="Folder that holds runs.", show_default="traces/runs", metavar="DIR")
    ] = "",
    round_quorum: Annotated[
        int, Option(help="Go on when this many of a round are judged; 0 waits for all.")
    ] = 0,
    patience: Annotated[int, Option(help="Rounds without gain before leaving the structure.")] = 2,
    tune: Annotated[int, Option(help="Tunings tried a round without asking a model.")] = 8,
    review: Annotated[
        bool, Option("--review", help="Stop before each round, to go on with resume.")
    ] = False,
    as_json: Annotated[
        bool, Option("--json", help="One JSON document on stdout, nothing else.")
    ] = False,
) -> int:
    """Write kernels for a task, keep those that are right, and make the best one faster."""
    from cuda_llm.graph.request import RunRequest
    from cuda_llm.graph.runs.settle import settle
    from cuda_llm.graph.runs.start import start as start_run
    from cuda_llm.search import Components
    from cuda_llm.settings import settings
    from cuda_llm.traces.run_folder import RunFolder

    wanted = RunRequest(
        task=task,
        device=device,
        l2=l2 or settings().l2,
        generator=generator,
        strategy=strategy,
        agents=tuple(agent or ()),
        candidates=candidates,
        rounds=rounds,
        seed=seed,
        patience=patience,
        round_quorum=round_quorum,
        tune=tune,
        start=start,
        hints=tuple(hint or ()),
        model=model,
        reflection_model=reflection_model,
        base_url=base_url,
        prompts=prompts,
        hardware_context=hardware_context,
        components=Components(
            history=history,
            hints=hints,
            profile=profile,
            baseline=baseline,
            host_code=host_code,
            diversity=diversity,
        ),
        budget_usd=budget_usd,
        max_tokens=max_tokens,
        max_minutes=max_minutes,
        review=review,
        out=out,
    )
    request = settle(wanted)
    return watch_to_the_end(
        RunFolder(Path(request.out) / request.run_id),
        lambda watch: start_run(request, observers=[watch]),
        as_json=as_json,
    )
