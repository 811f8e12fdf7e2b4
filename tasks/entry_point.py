"""How `solve` calls a function of a source: which arguments of a task stand for its parameters.

A struct that is passed by value becomes its members, an array of pointers one array with an axis
more, and what has no counterpart is refused with the edit that makes it fit.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from cuda_llm.errors import UsageError
from cuda_llm.source_tokens import Token, tokenise
from cuda_llm.tasks.cuda_source import (
    CudaSource,
    Declared,
    DefinedFunction,
    read_declared,
    split_at_commas,
)
from cuda_llm.tasks.declared_types import DECLARED_TYPES
from cuda_llm.tasks.element_types import ELEMENT_TYPES, element_type
from cuda_llm.tasks.launches import clears, passed_as
from cuda_llm.tasks.macros import spell
from cuda_llm.tasks.pointer_use import Use, accesses
from cuda_llm.tasks.task import CTYPES, ArgumentRole, is_float

_ELEMENTS = {ctype: one.name for one in ELEMENT_TYPES.values() for ctype in one.ctypes}
"""Element types by C++ name; C++ types that differ between platforms are left out."""
_SAME = {name: {*one.ctypes} - {"char"} for name, one in ELEMENT_TYPES.items()}
"""Spellings of one and the same C++ type, by element type: a char is no signed char."""
_SCALARS = _ELEMENTS | {
    "size_t": "uint64",
    "int64_t": "int64",
    "long": "int64",
    "uint64_t": "uint64",
    "unsigned long": "uint64",
    "ptrdiff_t": "int64",
    "long int": "int64",
    "long long int": "int64",
    "unsigned long int": "uint64",
    "unsigned long long int": "uint64",
    "uint": "uint32",
}
"""Element types of by-value arguments by C++ name: C++ converts values, so the exact type need not
match."""
_STREAMS = frozenset({"cudaStream_t", "CUstream"})
_SCRATCH = re.compile(r"work|scratch|temp|tmp|buffer", re.IGNORECASE)
_BATCH = re.compile(r"batch|count|num", re.IGNORECASE)
_MOST_MEMBERS = 24
ROW = "ROW_ELEMENTS"
"""Stands for the elements of a row of an array of pointers."""
QUERY = "QUERY"
"""Stands for the call that asks for the size of temporary storage."""


@dataclass(frozen=True, kw_only=True)
class EntryArgument:
    """An argument of `solve` that a draft declares."""

    name: str
    dtype: str
    """NumPy name of its elements; empty for a stream."""
    role: ArgumentRole
    is_dim: bool = False
    """Whether a scalar counts something."""
    value: str = ""
    """What the source itself passes for a scalar, as an expression; empty where it says nothing."""
    axis: str = ""
    """The dim of an axis in front: that of an array of pointers."""
    columns: int = 1
    """How many elements stand for one in the source: those of a struct."""
    ctype: str = ""
    """C++ type that the source's own `solve` declares, where it is not the element type's."""
    first_only: bool = False
    """Whether only the first element is used."""
    is_cleared: bool = False
    """Whether callers set the output to zero first."""
    workspace: str = ""
    """The workspace that a scalar gives the bytes of; of a workspace its own name."""

    @property
    def is_output(self) -> bool:
        """Return whether the argument is a buffer whose contents count."""
        return self.role in (ArgumentRole.OUT, ArgumentRole.INOUT)

    @property
    def is_buffer(self) -> bool:
        """Return whether the argument is a pointer."""
        return self.role not in (ArgumentRole.SCALAR, ArgumentRole.STREAM)


@dataclass(frozen=True, kw_only=True)
class EntryPoint:
    """A function of a source, and how `solve` calls it."""

    function: DefinedFunction
    template: tuple[str, ...]
    arguments: tuple[EntryArgument, ...]
    statements: tuple[str, ...]
    """What makes the function's arguments of those of `solve`."""
    passed: tuple[str, ...]
    meanings: Mapping[str, str]
    """Template arguments by the names of the parameters."""
    after: tuple[str, ...] = ()
    """Statements behind the call."""

    @property
    def called(self) -> str:
        """Return the name by which `solve` calls the function."""
        return _called(self.function, self.template)


def find_entry(
    source: CudaSource, entry: str, where: str
) -> tuple[DefinedFunction, tuple[str, ...]]:
    """Find the function that `entry` spells, as `ops::k<float, 256>`, and its template arguments.

    Raises UsageError in a line that starts with `where`.
    """
    name, angle, rest = entry.partition("<")
    given = _arguments(rest.rpartition(">")[0]) if angle else ()
    path = tuple(name.strip().removeprefix("::").split("::"))
    found = [
        one
        for one in source.functions
        if not one.on_device and (*one.scope, one.name)[-len(path) :] == path
    ]
    if not found:
        known = ", ".join(dict.fromkeys(one.qualified for one in source.kernels))
        raise UsageError(
            f"{where}: has no void function {name.strip()}; found {known or 'no kernel at all'}"
        )
    function = next((one for one in found if bool(one.templates) == bool(angle)), found[0])
    if function.in_class and not function.is_static:
        raise UsageError(
            f"{where}: {function.qualified} needs an object; make it static, or add a function "
            "that makes the object and calls it"
        )
    return function, _template_arguments(source, function, given, where)


def _arguments(text: str) -> tuple[str, ...]:
    tokens = [one for one in tokenise(text) if not one.is_blank]
    return tuple(spell(one) for one in split_at_commas(tokens))


def _template_arguments(
    source: CudaSource, function: DefinedFunction, given: Sequence[str], where: str
) -> tuple[str, ...]:
    """Return arguments for all template parameters: those given, those of the source, defaults."""
    wanted = function.templates
    if not wanted:
        return ()
    known = tuple(given) or source.instances.get(function.name, ())
    defaults = [one.default for one in wanted[len(known) :]]
    if len(known) <= len(wanted) and all(defaults):
        return known
    filled = [
        *known,
        *(one.default or ("float" if one.is_type else "256") for one in wanted[len(known) :]),
    ]
    raise UsageError(
        f"{where}: {function.qualified} is a template; say for which arguments: "
        f"add --entry '{function.qualified}<{', '.join(filled)}>'"
    )


@dataclass
class _Builder:
    source: CudaSource
    function: DefinedFunction
    types: Mapping[str, str]
    where: str

    def __post_init__(self) -> None:
        self.arguments: list[EntryArgument] = []
        self.statements: list[str] = []
        self.after: list[str] = []
        self.taken: set[str] = set()
        self.workspace = ""
        """The workspace that the parameter before is, whose size may follow."""
        self.storage = ""
        """The workspace that `solve` allocates."""

    def pass_for(self, parameter: Declared) -> str:
        """Add what stands for a parameter; return what `solve` passes for it."""
        declared = self._resolved(parameter)
        name = parameter.name
        if self.workspace:
            workspace, self.workspace = self.workspace, ""
            is_size = not declared.pointers and re.search(r"size|bytes", name)
            if is_size and declared.reference and not declared.const:
                self._ask(workspace, name)
                return name
            self.workspace = workspace
            self.add_workspace()
            if is_size and declared.ctype in _SCALARS:
                dtype = _SCALARS[declared.ctype]
                self._add(
                    EntryArgument(
                        name=name, dtype=dtype, role=ArgumentRole.SCALAR, workspace=workspace
                    )
                )
                return name
        if declared.ctype in _STREAMS and not declared.pointers:
            self._add(EntryArgument(name=name, dtype="", role=ArgumentRole.STREAM))
            return name
        enum = self._find(self.source.enums, declared.ctype)
        if enum and not declared.pointers:
            value = self.source.enums[enum]
            self._add(
                EntryArgument(name=name, dtype="int32", role=ArgumentRole.SCALAR, value=value)
            )
            return f"static_cast<{enum}>({name})"
        struct = self._find(self.source.structs, declared.ctype)
        if struct and not declared.pointers:
            return self._struct(name, struct, parameter)
        if declared.pointers == 2 and declared.ctype in _ELEMENTS:
            return self._rows(name, declared)
        if declared.pointers == 1:
            return self._pointer(name, declared, parameter, struct)
        if declared.pointers or declared.ctype not in _SCALARS:
            raise self._refused(parameter)
        if element_type(_SCALARS[declared.ctype]).is_complex:
            part = CTYPES[element_type(_SCALARS[declared.ctype]).part]
            parts = [
                self.pass_for(replace(declared, name=f"{name}_{axis}", ctype=part, default=""))
                for axis in "xy"
            ]
            return f"make_{declared.ctype}({', '.join(parts)})"
        self._scalar(name, _SCALARS[declared.ctype], declared)
        return name

    def _ask(self, workspace: str, size: str) -> None:
        """Have `solve` ask the function for the bytes of its storage, and allocate it."""
        self.statements += [
            f"size_t {size} = 0;",
            QUERY,
            f"void* {workspace} = nullptr;",
            f"cudaMalloc(&{workspace}, {size});",
        ]
        self.after.append(f"cudaFree({workspace});")
        self.storage = workspace

    def add_workspace(self) -> None:
        """Add the workspace that the last parameter was."""
        name, self.workspace = self.workspace, ""
        role = ArgumentRole.WORKSPACE
        self._add(EntryArgument(name=name, dtype="uint8", role=role, workspace=name))

    def _add(self, argument: EntryArgument) -> None:
        self.taken.add(argument.name)
        self.arguments.append(argument)

    def _scalar(self, name: str, dtype: str, declared: Declared) -> None:
        value = declared.default.rstrip("fFuUlL") if declared.default else ""
        if not re.fullmatch(r"-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?", value):
            value = {"true": "1", "false": "0"}.get(declared.default, "")
        counts = not is_float(dtype) and dtype not in ("bool", "int8", "uint8") and not value
        self._add(
            EntryArgument(
                name=name,
                dtype=dtype,
                role=ArgumentRole.SCALAR,
                is_dim=counts,
                value=value,
                ctype=self._own_ctype(declared, dtype),
            )
        )

    def _pointer(self, name: str, declared: Declared, parameter: Declared, struct: str) -> str:
        if declared.ctype == "void" and not declared.const and _SCRATCH.search(name):
            self.workspace = name
            return name
        columns = 1
        passed = name
        dtype = ""
        if struct:
            members = self.source.structs[struct] or ()
            kinds = {_ELEMENTS.get(one.ctype, "") for one in members if not one.pointers}
            if len(kinds) == 1 and "" not in kinds and all(not one.pointers for one in members):
                dtype, columns = kinds.pop(), len(members)
                const = "const " if declared.const else ""
                passed = f"reinterpret_cast<{const}{struct}*>({name})"
        known = DECLARED_TYPES.get(declared.ctype)
        if not struct and known is not None and known.element:
            dtype, columns = known.element, known.lanes
            if known.ctype not in _SAME[dtype]:
                const = "const " if declared.const else ""
                passed = f"reinterpret_cast<{const}{known.ctype}*>({name})"
        if not dtype:
            raise self._refused(parameter)
        self._add(self._buffer(name, dtype, declared, columns=columns))
        return passed

    def _own_ctype(self, declared: Declared, dtype: str) -> str:
        """Return the C++ type that a `solve` of the source declares; empty where it is the element
        type's, or where a `solve` is written around the function."""
        own = self.function.name == "solve" and declared.ctype in DECLARED_TYPES
        return declared.ctype if own and declared.ctype not in _SAME[dtype] else ""

    def _buffer(
        self, name: str, dtype: str, declared: Declared, *, columns: int = 1, axis: str = ""
    ) -> EntryArgument:
        used = list(accesses(self.source, self.function, name))
        uses = [one.use for one in used]
        cleared = self._is_cleared(name)
        role = ArgumentRole.OUT
        if declared.const or (uses and set(uses) == {Use.READ}):
            role = ArgumentRole.IN
        elif uses and uses[0] in (Use.READ, Use.UPDATE) and not cleared:
            role = ArgumentRole.INOUT
        return EntryArgument(
            name=name,
            dtype=dtype,
            role=role,
            columns=columns,
            axis=axis,
            ctype=self._own_ctype(declared, dtype),
            first_only=bool(used) and all(one.first_only or one.use == Use.CLEAR for one in used)
            and any(one.first_only for one in used),
            is_cleared=cleared and role == ArgumentRole.OUT,
        )  # fmt: skip

    def _is_cleared(self, name: str) -> bool:
        launches = [one for one in self.source.launches() if one.kernel == self.function.name]
        variables = [(one, passed_as(one, self.function, name)) for one in launches]
        return any(variable and clears(one, variable) for one, variable in variables)

    def _rows(self, name: str, declared: Declared) -> str:
        """Pass one array as an array of pointers to its rows."""
        scalars = [
            one.name
            for one in self.function.parameters
            if not one.pointers and one.ctype in _SCALARS
        ]
        batch = next(filter(_BATCH.search, scalars), next(iter(scalars), ""))
        if not batch:
            raise UsageError(
                f"{self.where}: parameter `{declared.shown}`: an array of pointers; add a "
                "parameter that says how many there are, as in int batch"
            )
        self._add(self._buffer(name, _ELEMENTS[declared.ctype], declared, axis=batch))
        ctype = CTYPES[_ELEMENTS[declared.ctype]]
        const = "const " if declared.const else ""
        self.statements += [
            f"{const}{ctype}** {name}_rows;",
            f"cudaMalloc(&{name}_rows, {batch} * sizeof(*{name}_rows));",
            f"point_to_rows<<<({batch} + 255) / 256, 256>>>({name}_rows, {name}, {ROW}, {batch});",
        ]
        self.after.append(f"cudaFree({name}_rows);")
        return f"{name}_rows"

    def _struct(self, name: str, struct: str, parameter: Declared) -> str:
        members = self.source.structs[struct]
        if members is None or len(members) > _MOST_MEMBERS:
            raise UsageError(
                f"{self.where}: parameter `{parameter.shown}`: {struct} has no plain public "
                "members to give one by one; add a function that takes them and makes it"
            )
        self.statements.append(f"{struct} {name} = {{}};")
        for member in members:
            own = member.name if member.name not in self.taken else f"{name}_{member.name}"
            if any(one.name == own for one in self.function.parameters):
                own = f"{name}_{member.name}"
            passed = self.pass_for(replace(member, name=own))
            self.statements.append(f"{name}.{member.name} = {passed};")
        return name

    def _resolved(self, declared: Declared) -> Declared:
        """Return a declaration with template parameters and the source's aliases replaced."""
        for _ in range(8):
            ctype = declared.ctype.removeprefix("std::")
            if ctype in self.types:
                given = read_declared(_tokens(f"{self.types[ctype]} x"))
            else:
                alias = self._find(self.source.aliases, ctype)
                if not alias or self.source.aliases[alias].ctype == ctype:
                    break
                given = self.source.aliases[alias]
            declared = replace(
                declared,
                ctype=given.ctype,
                pointers=declared.pointers + given.pointers,
                const=declared.const or given.const,
            )
        return replace(declared, ctype=declared.ctype.removeprefix("std::"))

    def _find(self, known: Mapping[str, object], name: str) -> str:
        """Return the qualified name that `name` means inside of the function."""
        scope = self.function.scope
        for length in range(len(scope), -1, -1):
            qualified = "::".join((*scope[:length], name.removeprefix("::")))
            if qualified in known:
                return qualified
        return ""

    def _refused(self, parameter: Declared) -> UsageError:
        declared = self._resolved(parameter)
        shown = parameter.shown
        name = parameter.name
        if declared.ctype == "void":
            edit = f"expected the type of its elements, as in float* {name}"
        elif declared.pointers > 1:
            edit = f"expected one array with an axis more, as in float* {name}"
        elif declared.pointers and self._find(self.source.structs, declared.ctype):
            edit = (
                "its members are not of one type; expected an array for each of them, as in "
                f"float* {name}_x"
            )
        else:
            edit = (
                "expected a built-in number type, half, __nv_bfloat16, __nv_fp8_e4m3, one of the "
                "intN_t or a vector such as float4; or add a function of "
                f"numbers and pointers that calls {self.function.qualified}"
            )
        return UsageError(
            f"{self.where}: parameter `{shown}` of type {_without_gaps(declared.ctype)}; {edit}"
        )


def read_entry(source: CudaSource, entry: str, where: str) -> EntryPoint:
    """Return how `solve` calls the function that `entry` spells.

    Raises UsageError, in a line that starts with `where` and says which edit makes the function
    fit, where that cannot be.
    """
    function, template = find_entry(source, entry, where)
    defaults = [one.default for one in function.templates[len(template) :]]
    types = {
        one.name: given
        for one, given in zip(function.templates, (*template, *defaults), strict=True)
    }
    builder = _Builder(source, function, types, where)
    passed = [builder.pass_for(one) for one in function.parameters]
    if builder.workspace:
        builder.add_workspace()
    asked = ["nullptr" if one == builder.storage else one for one in passed]
    query = f"{_called(function, template)}({', '.join(asked)}); // how much storage it needs"
    return EntryPoint(
        function=function,
        template=template,
        arguments=tuple(builder.arguments),
        statements=tuple(query if one == QUERY else one for one in builder.statements),
        passed=tuple(passed),
        meanings=types,
        after=tuple(builder.after),
    )


def _called(function: DefinedFunction, template: Sequence[str]) -> str:
    """Return the name, with template arguments, by which `solve` calls a function."""
    arguments = f"<{', '.join(template)}>" if template else ""
    return f"{function.qualified}{arguments}"


def _without_gaps(ctype: str) -> str:
    """Return a type as a person spells it; `?` for none."""
    plain = re.sub(r" ?([<>]) ?", r"\1", ctype)
    return "a function" if "(" in plain else plain or "?"


def _tokens(text: str) -> list[Token]:
    return [one for one in tokenise(text) if not one.is_blank]
