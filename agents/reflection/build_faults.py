"""Sources that nvcc, ptxas or the linker refuse."""

from collections.abc import Mapping

from cuda_llm.agents.prompting.quote import join_parts, one_line
from cuda_llm.agents.reflection.diagnosis import Diagnosis, FailureContext
from cuda_llm.outcomes import BuildFault, CompileFailed, Diagnostic, LoadFailed
from cuda_llm.tasks.signature import signature
from cuda_llm.verdict_wording import describe, describe_compile_failure

_REMEDIES: Mapping[BuildFault, tuple[str, str]] = {
    "signature": (
        "signature",
        '`solve` must have exactly the signature that the task gives, as extern "C".',
    ),
    "undefined-name": (
        "undefined {name}",
        "`{name}` is used but not declared there: declare it, include its header, or use the name "
        "that exists in CUDA.",
    ),
    "no-member": (
        "no member {name}",
        "There is no member `{name}`: use what the header really declares.",
    ),
    "unknown-namespace": (
        "unknown namespace",
        "A namespace is not known: include the header that declares it.",
    ),
    "no-vector-operator": (
        "no operator of {name}",
        "`{name}` has no arithmetic of its own: compute its parts (.x, .y ...) one by one and put "
        "them together with make_{name}.",
    ),
    "collective-without-mask": (
        "collective without mask",
        "Votes and shuffles take the mask of lanes first: use __shfl_sync, __any_sync, __all_sync "
        "and __ballot_sync.",
    ),
    "missing-header": (
        "missing header",
        "A header is not there: include only CUDA's own headers and those the task names.",
    ),
    "static-shared-memory": (
        "static shared memory",
        "The `__shared__` arrays are too large together: make the tiles smaller, or declare them "
        "`extern __shared__` and ask for the size at launch after cudaFuncSetAttribute.",
    ),
    "unsupported-instruction": (
        "unsupported instruction",
        "An instruction is not there on this GPU: use the plain form of the same operation.",
    ),
    "host-call-in-device-code": (
        "host call in device code",
        "Device code calls a host function: use the device form of it, or mark it `__device__`.",
    ),
    "device-call-in-host-code": (
        "device call in host code",
        "Host code calls a device function: move the call into a kernel.",
    ),
    "redefinition": ("redefinition", "A name is defined twice: keep one definition."),
    "not-a-constant": (
        "not a constant",
        "A constant expression is needed: use constexpr, a template parameter or a #define for "
        "array sizes and unroll counts.",
    ),
    "types": (
        "types",
        "Types do not fit together: check the arguments of the call or the cast in that line.",
    ),
    "syntax": (
        "syntax",
        "The text is not C++ at that line: look for a missing bracket, brace or semicolon, or a "
        "file that was cut short.",
    ),
    "undefined-reference": (
        "undefined reference",
        "A function is declared and called but defined nowhere in this file.",
    ),
    "too-large": (
        "too large to compile",
        "Compiling needs too much time or memory: unroll less and instantiate fewer templates.",
    ),
    "empty": ("empty", "The file holds no code: write the whole kernel, `solve` included."),
}
"""The cause and what to do. Both may name what the message is about."""

_OTHER = ("other", "The compiler refuses the source: fix its first error before anything else.")


def compile_failed(verdict: CompileFailed, context: FailureContext) -> Diagnosis:
    """Diagnose by the first error: what follows is often its echo."""
    first = next((one for one in verdict.diagnostics if one.severity == "error"), None)
    fault = verdict.fault or (first.fault if first else None)
    cause, text = _REMEDIES[fault] if fault else _OTHER
    name = (first.subject if first else None) or ""
    if fault == "signature":
        text += f" It is: {signature(context.task)}"
    seen = one_line(first.message if first else describe_compile_failure(verdict))
    secret = first is not None and first.names_hardware
    return Diagnosis(
        code=verdict.code,
        cause=cause.format(name=name),
        text=text.format(name=name) if name else text,
        evidence=join_parts(
            context.quote_line(first.spot) if first else "",
            "" if secret else seen,
            _count_others(verdict, first),
        ),
        hardware_text=seen if secret else "",
    )


def load_failed(verdict: LoadFailed) -> Diagnosis:
    """Diagnose what compiled, but could not be bound."""
    cause = "other"
    text = "The compiled file cannot be loaded: define every function it calls in the same file."
    match verdict.fault:
        case "undefined-function":
            cause = "undefined function"
        case "no-solve":
            cause = "no solve"
            text = 'There is no `solve` to call: define it once, as extern "C", outside namespaces.'
        case "driver":
            cause = "device code"
            text = "The driver does not load the device code: keep to what this GPU can execute."
    seen = one_line(describe(verdict)[0])
    return Diagnosis(code=verdict.code, cause=cause, text=text, evidence=seen)


def _count_others(verdict: CompileFailed, first: Diagnostic | None) -> str:
    others = verdict.omitted + sum(
        one.severity == "error" and one is not first for one in verdict.diagnostics
    )
    return f"{others} more error{'s' if others != 1 else ''}" if others else ""
