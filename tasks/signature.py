"""The entry point of a task as C++ sees it."""

from cuda_llm.tasks.task import CTYPES, ArgumentRole, Task, TaskArgument


def signature(task: Task) -> str:
    """Return `extern "C" void solve(...)` with the task's arguments in order, no semicolon."""
    return f'extern "C" void solve({", ".join(map(_parameter, task.arguments))})'


def prelude(task: Task) -> str:
    """Return text to include before a candidate: a `solve` of another signature is an error then.

    It also makes `solve` visible where everything else is compiled with hidden visibility.
    """
    return (
        f"#pragma once\n{_includes(task)}"
        f'extern "C" __attribute__((visibility("default"))) void solve('
        f"{', '.join(map(_parameter, task.arguments))});\n"
    )


def host_context(task: Task) -> str:
    """Describe how `solve` is called: its declaration, with the contract in comments."""
    lines = [f"{name}: {meaning}" for name, meaning in task.dims.items()]
    if task.requires:
        lines.append(f"Always holds: {task.requires}")
    lines.append("Buffers are device memory, row-major, 256-byte aligned, and never overlap.")
    lines += [f"{one.name} {text}" for one in task.arguments if (text := _contract(one))]
    comments = "".join(f"// {line}\n" for line in lines)
    return f"{comments}{_includes(task)}{signature(task)};\n"


def _parameter(argument: TaskArgument) -> str:
    if argument.role == ArgumentRole.STREAM:
        return f"cudaStream_t {argument.name}"
    ctype = argument.declared.ctype
    if argument.role == ArgumentRole.SCALAR:
        return f"{ctype} {argument.name}"
    const = "const " if argument.role == ArgumentRole.IN else ""
    return f"{const}{ctype}* {argument.name}"


def _includes(task: Task) -> str:
    headers = {argument.declared.header for argument in task.arguments} - {""}
    return "".join(f"#include <{header}>\n" for header in sorted(headers))


def _contract(argument: TaskArgument) -> str:
    if argument.role == ArgumentRole.SCALAR:
        return "" if argument.value == argument.name else f"= {argument.value}"
    if argument.role == ArgumentRole.STREAM:
        return "is the stream that is waited for and timed: the default stream"
    extents = "".join(f"[{text}]" for text in argument.shape)
    if argument.declared.element != argument.dtype or argument.declared.lanes > 1:
        extents += f" of {CTYPES[argument.dtype]}"
    match argument.role:
        case ArgumentRole.IN:
            return f"{extents} read only"
        case ArgumentRole.OUT if argument.initial:
            return f"{extents} arrives filled with {argument.initial}, to be overwritten"
        case ArgumentRole.OUT:
            return f"{extents} to be written, every element"
        case ArgumentRole.WORKSPACE:
            return f"{extents} for work between, arrives with garbage"
        case _:
            return f"{extents} read and overwritten"
