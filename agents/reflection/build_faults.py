"""Sources that nvcc, ptxas or the linker refuse."""

import re
from dataclasses import dataclass

from cuda_llm.agents.quote import join, one_line, quote_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, Scene
from cuda_llm.outcomes import CompileFailed, Diagnostic, LoadFailed
from cuda_llm.tasks.signature import signature

_HARDWARE = re.compile(
    r"\b(?:sm|compute)_\d|\.target\b|\bmax(?:imum)?\b|\bat most\b|\ballowed are\b|\bSMs?\b"
    r"|\bdo not fit\b|\bGeForce\b|\bTesla\b|\bRTX\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Rule:
    """What a message of the compiler says about the source."""

    pattern: re.Pattern[str]
    cause: str
    """May refer to groups of the pattern."""
    text: str


def _rule(pattern: str, cause: str, text: str) -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), cause, text)


_RULES = (
    _rule(
        r"declaration is incompatible.*solve|solve.*(?:linkage|incompatible|conflict)"
        r"|cannot overload functions distinguished by return type",
        "signature",
        '`solve` must have exactly the signature that the task gives, as extern "C".',
    ),
    _rule(
        r"identifier \"(?P<name>\w+)\" is undefined",
        "undefined {name}",
        "`{name}` is used but not declared there: declare it, include its header, or use the name "
        "that exists in CUDA.",
    ),
    _rule(
        r"(?:namespace|class|struct) \"(?:[^\"]*)\" has no member \"(?P<name>\w+)\"",
        "no member {name}",
        "There is no member `{name}`: use what the header really declares.",
    ),
    _rule(
        r"cannot open source file|No such file or directory",
        "missing header",
        "A header is not there: include only CUDA's own headers and those the task names.",
    ),
    _rule(
        r"uses too much shared data",
        "static shared memory",
        "The `__shared__` arrays are too large together: make the tiles smaller, or declare them "
        "`extern __shared__` and ask for the size at launch after cudaFuncSetAttribute.",
    ),
    _rule(
        r"requires \.?target|not supported on|\.target sm_|requires.*compute capability"
        r"|is not a valid.*architecture|no longer supported",
        "unsupported instruction",
        "An instruction is not there on this GPU: use the plain form of the same operation.",
    ),
    _rule(
        r"calling a (?:constexpr )?__host__ (?:__device__ )?function.* from a __[gd]\w+__",
        "host call in device code",
        "Device code calls a host function: use the device form of it, or mark it `__device__`.",
    ),
    _rule(
        r"calling a __device__ function.*from a __host__",
        "device call in host code",
        "Host code calls a device function: move the call into a kernel.",
    ),
    _rule(
        r"has already been (?:defined|declared)|redefinition|already defined",
        "redefinition",
        "A name is defined twice: keep one definition.",
    ),
    _rule(
        r"must be a (?:compile-time )?constant|must have a constant value|not a constant",
        "not a constant",
        "A constant expression is needed: use constexpr, a template parameter or a #define for "
        "array sizes and unroll counts.",
    ),
    _rule(
        r"no instance of|no suitable|argument of type|incompatible with|too (?:few|many) arguments"
        r"|cannot be (?:used to )?(?:initialize|convert|assign)|no operator",
        "types",
        "Types do not fit together: check the arguments of the call or the cast in that line.",
    ),
    _rule(
        r"expected (?:an?|the|either)|unexpected|unterminated|missing closing|unrecognized token"
        r"|syntax error|at end of (?:input|file)",
        "syntax",
        "The text is not C++ at that line: look for a missing bracket, brace or semicolon, or a "
        "file that was cut short.",
    ),
    _rule(
        r"undefined reference",
        "undefined reference",
        "A function is declared and called but defined nowhere in this file.",
    ),
    _rule(
        r"out of memory|was killed|too long|did not finish|too large",
        "too large to compile",
        "Compiling needs too much time or memory: unroll less and instantiate fewer templates.",
    ),
)


def compile_failed(verdict: CompileFailed, scene: Scene) -> Diagnosis:
    """The first error decides: what follows is often its echo."""
    first = next((one for one in verdict.diagnostics if one.severity == "error"), None)
    message = first.message if first else verdict.reason
    spot = quote_line(first.spot) if first else ""
    rule, name = _find(message)
    text = rule.text.format(name=name)
    if rule.cause == "signature":
        text += f" It is: {signature(scene.task)}"
    secret = _tells_of_hardware(message)
    seen = one_line(message)
    return Diagnosis(
        code=verdict.code,
        cause=rule.cause.format(name=name),
        text=text,
        evidence=join(spot, "" if secret else seen, _more(verdict, first)),
        hardware_text=seen if secret else "",
    )


def load_failed(verdict: LoadFailed) -> Diagnosis:
    """It compiled, but could not be bound."""
    lost = re.match(r"(?P<name>[\w:~<>, *&()]+?) is declared and used", verdict.detail)
    text = "The compiled file cannot be loaded: define every function it calls in the same file."
    if "solve" in verdict.detail and lost is None:
        text = 'There is no `solve` to call: define it once, as extern "C", outside namespaces.'
    cause = "undefined function" if lost else ("no solve" if "solve" in verdict.detail else "other")
    return Diagnosis(code=verdict.code, cause=cause, text=text, evidence=one_line(verdict.detail))


def _find(message: str) -> tuple[_Rule, str]:
    for rule in _RULES:
        if match := rule.pattern.search(message):
            return rule, match.groupdict().get("name") or ""
    text = "The compiler refuses the source: mend its first error before anything else."
    return _Rule(re.compile(""), "other", text), ""


def _more(verdict: CompileFailed, first: Diagnostic | None) -> str:
    others = verdict.omitted + sum(
        one.severity == "error" and one is not first for one in verdict.diagnostics
    )
    return f"{others} more error{'s' if others != 1 else ''}" if others else ""


def _tells_of_hardware(text: str) -> bool:
    """Whether a tool's message gives away a limit or the name of the GPU."""
    return _HARDWARE.search(text) is not None
