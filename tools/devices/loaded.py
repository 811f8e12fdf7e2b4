"""What a session runs, and on what."""

from dataclasses import dataclass, replace

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.compiler.candidate import Compiled
from cuda_llm.tools.emulator.tables import KernelTable, Translated


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A candidate, its kernels as the emulated device runs them, and the GPU it stands for."""

    candidate: Compiled
    translated: Translated
    hardware: Hardware

    def named_tables(self) -> tuple[KernelTable, ...]:
        """The kernels' tables under the names a person gave them."""
        names = {kernel.symbol: kernel.kernel for kernel in self.candidate.kernels}
        return tuple(
            replace(table, symbol=names.get(table.symbol, table.symbol))
            for table in self.translated.kernels
        )
