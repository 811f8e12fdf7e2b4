"""Names inside a function: each nested `{ }` has registers, variables and labels of its own."""

from dataclasses import dataclass, field

from cuda_llm.tools.emulator.ptx.module import Operand, Reg, Symbol


@dataclass
class Scope:
    """One block. Names declared in a nested block get a suffix no source can spell."""

    number: int
    parent: "Scope | None" = None
    names: dict[str, Operand] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)

    def unique(self, name: str) -> str:
        """Return the name of a declaration of this block that is unique in the whole function."""
        return name if self.parent is None else f"{name}'{self.number}"

    def declare_register(self, name: str) -> str:
        unique = self.unique(name)
        self.names[name] = Reg(unique)
        return unique

    def declare_variable(self, name: str) -> str:
        unique = self.unique(name)
        self.names[name] = Symbol(unique)
        return unique

    def find(self, name: str) -> Operand | None:
        """Return what a name means here; None where no block declares it."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def label(self, name: str) -> str:
        """Return the unique name of a label, as seen from here once the whole function is read."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.labels:
                return scope.unique(name)
            scope = scope.parent
        return name
