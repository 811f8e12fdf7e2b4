"""The runner program, built from `native/` at first use."""

from pathlib import Path

from cuda_llm.tools.native import build

_NATIVE = Path(__file__).parent / "native"
_TOOLS = Path(__file__).parent.parent
_SANDBOX = _TOOLS / "sandbox" / "native"
_SANDBOX_PARTS = ("calls", "filter", "landlock", "limits", "seccomp", "violation")
_RUNTIME = _TOOLS / "emulator" / "runtime"


def runner_program() -> Path:
    """Path of the runner. Raises MissingError without g++."""
    sandbox = [_SANDBOX / f"{part}.c" for part in _SANDBOX_PARTS]
    sources = [*sorted(_NATIVE.glob("*.cpp")), *sandbox]
    flags = ["-std=c++20", "-O2", "-Wall", "-Wextra", "-Werror"]
    includes = [f"-I{folder}" for folder in (_NATIVE, _RUNTIME, _SANDBOX)]
    # What candidates need is in the process before it is confined: they open no file but their own.
    libraries = ["-Wl,--no-as-needed", "-lstdc++", "-lm", "-lgcc_s", "-ldl", "-Wl,-z,now"]
    watch = [_NATIVE, _SANDBOX, _RUNTIME / "emu"]
    return build("runner", sources, [*flags, *includes, *libraries], watch)
