"""Settings of this machine: `CUDA_LLM_*` variables, then the user's `config.toml`, then defaults.

Importing this module loads pydantic; import it inside the function that needs a setting.
"""

import difflib
import json
import os
import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import platformdirs
from pydantic import AfterValidator, Field, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from cuda_llm.data_file import config_file
from cuda_llm.errors import UsageError, nearest

_PREFIX = "CUDA_LLM_"
_NEAR = 0.8
"""Similarity, 0 to 1, from which on a variable is a misspelt setting. Variables of other programs
may begin as ours do."""
_LONGEST_SHOWN = 60
"""Characters of a value that does not fit."""


def _absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(f"a path: {error}") from None


AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
"""`~` is the home folder, and a relative path starts at the current folder."""


class Settings(BaseSettings):
    """What may differ from machine to machine. Every field is also a variable in capitals."""

    model_config = SettingsConfigDict(
        env_prefix="CUDA_LLM_", env_ignore_empty=True, frozen=True, extra="forbid"
    )

    cache: AbsolutePath = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("cuda-llm"))
    )
    """Folder for everything that can be made again: builds, compiled candidates, baseline times."""
    nvcc: AbsolutePath | None = None
    """nvcc to use instead of the one that is found."""
    hardware_dir: AbsolutePath | None = None
    """Folder with hardware profiles of your own."""
    device: str = "auto"
    """Device of commands that are not given one."""
    compile_workers: int = Field(default=0, ge=0)
    """Compilations at once; 0 means one a core."""
    device_workers: int = Field(default=0, ge=0)
    """Candidates that emulated devices run at once; 0 means one a core. A GPU takes one."""
    l2: Literal["cold", "warm"] = "cold"
    """What L2 holds when a timed call on a GPU begins, for commands that are not told."""
    compile_wall_s: float = Field(default=60.0, gt=0)
    """Longest one compilation may take, in seconds. Each process of it gets half of that as
    processor time, one that only reads the source a sixth."""
    compile_memory_mib: int = Field(default=2048, gt=0)
    """Address space that each process of a compilation may take, in MiB."""
    call_limit_s: float = Field(default=10.0, gt=0)
    """Longest one call of `solve` may take, in seconds."""
    reference_limit_s: float = Field(default=40.0, gt=0)
    """Longest one call of a task's reference may take, in seconds."""
    gpu_call_least_s: float = Field(default=2.0, gt=0)
    """On a GPU a call may take 50 times the baseline's time, and at least this, in seconds."""
    referee_silence_s: float = Field(default=60.0, gt=1)
    """A GPU's referee without a sign of life for so long, in seconds, is replaced."""
    referee_limit_s: float = Field(default=1800.0, gt=0)
    """Longest one candidate may keep a GPU in one step, in seconds."""
    nvml: bool = True
    """Ask NVML what else a GPU does, and for its clocks."""
    model: str = ""
    """Chat model of runs that are not given one; empty leaves writing to the playbook."""
    reflection_model: str = ""
    """Chat model of the reflection agent; empty is `model`."""
    agent_models: dict[str, str] = Field(default_factory=dict)
    """Chat models of agents of your own, by the agent's name."""
    base_url: str = ""
    """Endpoint of both; empty is what OPENAI_BASE_URL says, else OpenAI's own."""
    model_calls: int = Field(default=8, ge=1)
    """Model calls in flight at once."""
    model_tries: int = Field(default=4, ge=1)
    """Requests one call may make."""
    model_try_s: float = Field(default=300.0, gt=0)
    """Longest one request may take, in seconds."""
    model_deadline_s: float = Field(default=900.0, gt=0)
    """Longest one call may take with all its tries and waits, in seconds."""
    model_output_tokens: int = Field(default=16384, ge=0)
    """Longest answer, reasoning included, that a request allows; 0 leaves it to the server."""
    model_stream: bool = False
    """Ask for answers piece by piece, for gateways that drop quiet connections."""
    model_request: dict[str, Any] = Field(default_factory=dict)
    """Further fields of each request, sent as they are."""
    agent_deadline_s: float = Field(default=1800.0, gt=0)
    """Longest an extra agent may take each time, in seconds; then the run goes on without it."""
    prices: AbsolutePath | None = None
    """Price table of your own."""
    log_format: Literal["console", "json"] = "console"
    """What log records of a command look like: lines for people, or JSON."""
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    """Least grave log records of a command that are written."""
    log_file: AbsolutePath | None = None
    """File that log records of a command are appended to; none is stderr."""
    otlp: bool = False
    """Send runs as OpenTelemetry spans while they go on, to where the `OTEL_*` variables say."""
    cache_limit_mb: int = Field(default=8192, ge=0)
    """What may stay in the cache of what is built, in MB: what was not used for longest goes first;
    0 is no limit."""
    lessons: AbsolutePath = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("cuda-llm"), "lessons.jsonl")
    )
    """File of what orders of earlier runs brought, for strategies with the switch `lessons`."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return what decides, first to last: arguments, the environment, the file."""
        file = TomlConfigSettingsSource(settings_cls, toml_file=config_file())
        return init_settings, env_settings, file


def settings() -> Settings:
    """Return the settings in force, read again only when the environment has changed.

    Raises UsageError naming the setting and what was expected, or the setting that a misspelt
    variable nearly names.
    """
    names = (name for name in os.environ if _is_ours(name) or name in _FOLDERS)
    return _read(tuple((name, os.environ.get(name)) for name in names))


_FOLDERS = {"HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}
"""Variables that defaults of settings depend on."""


def _is_ours(variable: str) -> bool:
    return variable.upper().startswith(_PREFIX)


def setting_source(name: str) -> str:
    """Return where a setting that is in force stands: `CUDA_LLM_NVCC`, or `.../config.toml:3`.

    Empty where neither names it.
    """
    variable = f"{_PREFIX}{name.upper()}"
    # As pydantic reads them: in any case, and one that is empty does not count.
    spelled = [key for key, value in os.environ.items() if value and key.upper() == variable]
    if spelled:
        return spelled[0]
    file = config_file()
    try:
        text = file.read_text(encoding="utf-8")
        named = name in tomllib.loads(text)
    except (OSError, ValueError):
        return ""
    if not named:
        return ""
    opening = re.compile(rf"""\s*\[?\s*["']?{re.escape(name)}\b""")
    lines = (at for at, line in enumerate(text.splitlines(), start=1) if opening.match(line))
    return f"{file}:{next(lines, 1)}"


@lru_cache(maxsize=1)
def _read(deciding: tuple[tuple[str, str | None], ...]) -> Settings:
    for variable, _ in deciding:
        if _is_ours(variable):
            _check_spelling(variable)
    try:
        return Settings()
    except ValidationError as error:
        raise _refuse(error) from None
    except ValueError as error:
        # A variable that holds no JSON is refused before the file is looked at.
        for name, field in Settings.model_fields.items():
            source = setting_source(name)
            if field.default_factory is dict and source in os.environ:
                _check_json(source)
        quotes = "; text stands in quotes" if str(error).startswith("Invalid value") else ""
        raise UsageError(f"{config_file()}: is not TOML: {error}{quotes}") from None


def _check_spelling(variable: str) -> None:
    """Raise UsageError where a variable is nearly, but not, the name of a setting."""
    name = variable.upper().removeprefix(_PREFIX).lower()
    close = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=_NEAR)
    if close and close[0] != name:
        meant = f"{_PREFIX}{close[0].upper()}"
        raise UsageError(f"{variable}: no setting {name!r}; did you mean {meant}?")


def _refuse(error: ValidationError) -> UsageError:
    """Return the error of ours for the first setting that does not fit: where, what, the remedy."""
    first = error.errors()[0]
    name = str(first["loc"][0])
    source = setting_source(name)
    if name not in Settings.model_fields:
        return UsageError(f"{source}: no setting {name!r}; {nearest(name, Settings.model_fields)}")
    message = first["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    shown = " ".join(repr(first["input"]).split())[:_LONGEST_SHOWN]
    return UsageError(f"{source}: setting {name} is {shown}; expected {message}")


def _check_json(variable: str) -> None:
    """Raise UsageError unless the variable holds JSON."""
    try:
        json.loads(os.environ[variable])
    except ValueError as error:
        shown = os.environ[variable][:_LONGEST_SHOWN]
        raise UsageError(f"{variable}: {shown!r} is not JSON: {error}") from None
