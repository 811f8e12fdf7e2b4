"""`cuda-llm run`: write, prove and speed up a kernel. Its options are those of `RunRequest`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from cuda_llm.cli.run_end import watch_to_the_end
from cuda_llm.errors import UsageError
from cuda_llm.graph.request import RunOption, RunRequest, run_options, task_help
from cuda_llm.search import Components


def run(as_json: bool, **given: Any) -> int:
    """Write kernels for a task, keep those that are right, and make the best one faster."""
    from cuda_llm.graph.runs.settle import settle
    from cuda_llm.graph.runs.start import start as start_run
    from cuda_llm.traces.run_folder import RunFolder

    request = settle(request_from(given))
    return watch_to_the_end(
        RunFolder(Path(request.out) / request.run_id),
        lambda watch: start_run(request, observers=[watch]),
        as_json=as_json,
    )


def request_from(given: Mapping[str, Any]) -> RunRequest:
    """Build the request from the options' values; None where an option was not given."""
    values = {
        one.name: _read_value(one, given) for one in run_options() if one.text.on_command_line
    }
    chosen = {name: value for name, value in values.items() if value is not None}
    return RunRequest(task=given["task"], **chosen)


def _read_value(option: RunOption, given: Mapping[str, Any]) -> Any:
    if option.kind is Components:
        switches = [one.name for one in fields(Components)]
        return Components(**{name: given[_switch(option, name)] for name in switches})
    value = given[option.name]
    if option.is_list:
        return tuple(value or ())
    return dict(_pairs(option, value or ())) if option.is_mapping else value


def _pairs(option: RunOption, entries: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Split NAME=MODEL entries into pairs. Raises UsageError."""
    seen = set()
    for entry in entries:
        name, equals, value = entry.partition("=")
        if not equals:
            raise UsageError(f"{option.flag} {entry}: expected {option.text.metavar}")
        if name in seen:
            raise UsageError(f"{option.flag} {entry}: {name} has one already")
        seen.add(name)
        yield name, value


def _parameters() -> Iterator[Parameter]:
    """Yield the parameters that Typer builds the command line from."""
    yield _parameter("task", Annotated[str, typer.Argument(help=task_help())])
    for option in run_options():
        if option.kind is Components:
            yield from _switches(option)
        elif option.text.on_command_line:
            kind, default = _spelled(option)
            info = typer.Option(
                option.flag,
                help=option.text.help,
                metavar=option.text.metavar or None,
                show_default=option.text.shown or True,
            )
            yield _parameter(option.name, Annotated[kind, info], default)
    info = typer.Option("--json", help="One JSON document on stdout, nothing else.")
    yield _parameter("as_json", Annotated[bool, info], False)


def _spelled(option: RunOption) -> tuple[Any, Any]:
    """Return type and default as Typer takes them."""
    if option.is_list or option.is_mapping:
        return list[str] | None, None
    words = get_args(option.kind)
    if option.is_choice and "" in words:
        return Literal[tuple(word for word in words if word)] | None, None
    return option.kind, option.default


def _switches(option: RunOption) -> Iterator[Parameter]:
    """Yield a `--name/--no-name` for each field."""
    for one in fields(option.kind):
        name = one.name.replace("_", "-")
        info = typer.Option(f"--{name}/--no-{name}", help=one.metadata["help"])
        yield _parameter(_switch(option, one.name), Annotated[bool, info], one.default)


def _switch(option: RunOption, name: str) -> str:
    return f"{option.name}_{name}"


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


run.__signature__ = Signature(list(_parameters()))  # type: ignore[attr-defined]
