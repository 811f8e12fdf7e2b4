"""Fills in what a configuration leaves open, so that a resumed run is the same from any folder."""

import re
import secrets
from datetime import UTC, datetime
from pathlib import Path

from cuda_llm.errors import UsageError
from cuda_llm.run_config import RunConfig, option_of
from cuda_llm.tasks.loader import list_tasks

RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def resolve_config(config: RunConfig) -> RunConfig:
    """Fill in what the settings decide, name the run, and make every path absolute.

    The command line, `optimize` and the bare graph come through here, a resumed run does not: what
    was decided stays. Raises UsageError for a name of a run that is none.
    """
    # What is not said of a replay is as in the recorded run, not as these settings are.
    config = config if config.replay else with_settings(config)
    if config.run_id and not RUN_NAME.fullmatch(config.run_id):
        msg = f"run name {config.run_id!r}: expected letters, digits, '.', '_' and '-'"
        raise UsageError(msg)
    folder = Path(config.task).expanduser()
    return config.changed(
        task=resolve_task(config.task),
        device=absolute_code(config.device),
        generator=absolute_code(config.generator),
        strategy=absolute_code(config.strategy),
        agents=tuple(map(absolute_code, config.agents)),
        start=_absolute(config.start),
        prompts=_absolute(config.prompts),
        out=_absolute(config.out),
        run_id=config.run_id or name_run(folder.name, datetime.now(UTC)),
    )


def with_settings(config: RunConfig) -> RunConfig:
    """Return the configuration with the values of settings for options that the user did not
    give."""
    from cuda_llm.settings import settings

    now = settings()
    decided = [
        name
        for name in RunConfig.model_fields.keys() - config.model_fields_set
        if option_of(name).setting == "read at the start"
    ]
    return config.changed(**{name: getattr(now, name) for name in decided})


def resolve_task(task: str) -> str:
    """Return the name of a shipped task, whatever lies in the current folder; else the path."""
    folder = Path(task).expanduser()
    return str(folder.absolute()) if task not in list_tasks() and folder.exists() else task


def name_run(task: str, now: datetime) -> str:
    """Make a run's name, which sorts by time and is unique: `20260131-100000-reduction-3f2a`."""
    plain = re.sub(r"[^A-Za-z0-9_]+", "-", task).strip("-") or "run"
    return f"{now:%Y%m%d-%H%M%S}-{plain[:40]}-{secrets.token_hex(2)}"


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().absolute()) if path else ""


def absolute_code(spec: str) -> str:
    """Make the path of `FILE.py:NAME` absolute; other names stay as they are."""
    path, colon, rest = spec.partition(".py:")
    return f"{_absolute(path)}.py:{rest}" if colon and path else spec
