"""One launch with all that is known of it: the input of model and explanation."""

from dataclasses import dataclass

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.occupancy import Occupancy, occupancy
from cuda_llm.profile import KernelResources
from cuda_llm.tools.emulator.account import LaunchAccount
from cuda_llm.tools.emulator.tables import KernelTable
from cuda_llm.tools.profiler.latency import warps_per_block
from cuda_llm.tools.profiler.time_model import LaunchTime, Setting, model_launch


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A launch on a chip, modelled."""

    name: str
    account: LaunchAccount
    table: KernelTable
    hardware: Hardware
    occupancy: Occupancy
    setting: Setting
    time: LaunchTime

    @property
    def shared_bytes(self) -> int:
        """Static and dynamic shared memory per block."""
        return self.account.static_shared_bytes + self.account.dynamic_shared_bytes

    @property
    def resident_warps(self) -> int:
        """Warps an SM holds at once, fewer than fit where the grid is small."""
        per_sm = -(-self.account.blocks_total // self.hardware.sm_count)
        return min(self.setting.blocks_per_sm, per_sm) * warps_per_block(self.account)

    def what_if(
        self, *, account: LaunchAccount | None = None, setting: Setting | None = None
    ) -> LaunchTime:
        """Time of the same launch with other counts or another place on the chip."""
        return model_launch(
            account or self.account, self.table, self.hardware, setting or self.setting
        )


def place_launch(
    account: LaunchAccount,
    table: KernelTable,
    resources: KernelResources | None,
    hardware: Hardware,
    *,
    resident_bytes: float = 0.0,
) -> Launch:
    """Put a launch on a chip and model its time.

    Without `resources` the kernel is taken to need 32 registers a thread.
    """
    x, y, z = account.block
    held = occupancy(
        hardware,
        threads_per_block=x * y * z,
        registers_per_thread=resources.registers if resources else 32,
        shared_bytes=account.static_shared_bytes + account.dynamic_shared_bytes,
    )
    setting = Setting(blocks_per_sm=max(1, held.blocks_per_sm), resident_bytes=resident_bytes)
    return Launch(
        name=resources.kernel if resources else table.symbol,
        account=account,
        table=table,
        hardware=hardware,
        occupancy=held,
        setting=setting,
        time=model_launch(account, table, hardware, setting),
    )
