"""The emulated device behind a GPU host process, as a GPU is."""

from dataclasses import replace

from host_works import PLAIN

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.cuda.device import CudaDevice
from cuda_llm.tools.cuda.lease import Lease
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.emulator.device import EmulatedDevice

EMULATED = EmulatedDevice(find_hardware("RTX 3090 Ti"))


def hosted(
    number: int, opening: OpenSite = PLAIN, timeouts: HostTimeouts | None = None
) -> CudaDevice:
    """Make device `number` of this machine. Its cache must be the test's own."""
    uuid, label = f"GPU-{number}", f"cuda:{number}"
    return CudaDevice(
        name=EMULATED.name,
        hardware=EMULATED.hardware,
        capabilities=replace(EMULATED.capabilities, at_once=1),
        version=EMULATED.version,
        uuid=uuid,
        label=label,
        client=HostClient(opening, timeouts or HostTimeouts()),
        lease=Lease(uuid, label, print),
    )
