"""PTX text to a `Module`."""

import re
from math import prod

from cuda_llm.tools.emulator.ptx.body import Locations, read_body
from cuda_llm.tools.emulator.ptx.declarations import LINKAGE, SPACES, variable
from cuda_llm.tools.emulator.ptx.module import Function, Module, Symbol, Variable
from cuda_llm.tools.emulator.ptx.tokens import Cursor, tokenise

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"', re.MULTILINE)


def parse(text: str, source_name: str = "") -> Module:
    """Read a PTX file. Raises PtxError with the line where it cannot be read.

    `source_name` is the user's file as `.file` ends; lines are reported in it.
    """
    files = {int(number): path for number, path in _FILE.findall(text)}
    return _ModuleParser(Cursor(tokenise(text)), files, source_name).module()


class _ModuleParser:
    def __init__(self, cursor: Cursor, files: dict[int, str], source_name: str) -> None:
        self._cursor = cursor
        self._files = files
        self._source_name = source_name
        self._variables: list[Variable] = []
        self._functions: dict[str, Function] = {}
        self._names: dict[str, Symbol] = {}
        self._version = self._target = ""

    def module(self) -> Module:
        cursor = self._cursor
        while cursor.peek():
            self._item()
        return Module(
            version=self._version,
            target=self._target,
            functions=tuple(self._functions.values()),
            variables=tuple(self._variables),
        )

    def _item(self) -> None:
        cursor = self._cursor
        word = cursor.take()
        external = False
        while word in LINKAGE:
            external = external or word == ".extern"
            word = cursor.take()
        if word in SPACES:
            for found in variable(cursor, word[1:], external=external):
                self._declare(found)
            cursor.expect(";")
        elif word in {".entry", ".func"}:
            self._function(entry=word == ".entry")
        elif word == ".version":
            self._version = cursor.take()
        elif word == ".target":
            self._target = cursor.take()
            while cursor.accept(","):
                cursor.take()
        elif word == ".address_size":
            cursor.take()
        elif word == ".file":
            cursor.take()
            cursor.take()
            while cursor.accept(","):
                cursor.take()
        elif word in {".pragma", ".alias"}:
            cursor.skip_past(";")
        else:
            raise cursor.error(f"unexpected `{word}` outside a function")

    def _declare(self, found: Variable) -> None:
        self._names[found.name] = Symbol(found.name)
        for index, known in enumerate(self._variables):
            if known.name == found.name:
                if not found.external:
                    self._variables[index] = found
                return
        self._variables.append(found)

    def _function(self, *, entry: bool) -> None:
        cursor = self._cursor
        results = self._parameters() if cursor.peek() == "(" else ()
        name = cursor.take()
        params = self._parameters() if cursor.peek() == "(" else ()
        self._names[name] = Symbol(name)
        limits = self._directives()
        if cursor.accept(";"):
            return
        cursor.expect("{")
        body = read_body(
            cursor,
            (*params, *results),
            self._names,
            Locations(self._files, self._source_name),
        )
        self._functions[name] = Function(
            name=name,
            entry=entry,
            params=params,
            results=results,
            registers=body.registers,
            variables=tuple(body.variables),
            body=tuple(body.statements),
            max_threads=_product(limits.get(".maxntid") or limits.get(".reqntid"), 0),
            cluster=tuple(limits.get(".reqnctapercluster", ())),
        )

    def _parameters(self) -> tuple[Variable, ...]:
        cursor = self._cursor
        cursor.expect("(")
        found: list[Variable] = []
        while not cursor.accept(")"):
            word = cursor.take()
            if word not in {".param", ".reg"}:
                raise cursor.error(f"expected a parameter, found `{word}`")
            found.extend(variable(cursor, "param"))
            cursor.accept(",")
        return tuple(found)

    def _directives(self) -> dict[str, list[int]]:
        """Pass what stands between a function's head and body. Returns sizes by directive."""
        cursor = self._cursor
        sizes: dict[str, list[int]] = {}
        while cursor.peek() not in {"{", ";"}:
            word = cursor.take()
            if word in {".maxntid", ".reqntid", ".reqnctapercluster"}:
                sizes[word] = [cursor.number()]
                while cursor.accept(","):
                    sizes[word].append(cursor.number())
        return sizes


def _product(sizes: list[int] | None, missing: int) -> int:
    return prod(sizes) if sizes else missing
