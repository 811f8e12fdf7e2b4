"""Modelled time of fills and copies by the CUDA API: device work without a kernel."""

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.profile import LaunchProfile

BUS_BYTES_PER_US = 25e3
"""Host to device and back: sixteen lanes of PCIe 4.0 at some 80 % of 31.5 GB/s (an estimate)."""


def copies_profile(
    count: int, device_bytes: int, host_bytes: int, hardware: Hardware
) -> tuple[LaunchProfile, ...]:
    """All of a call's fills and copies as one entry beside its launches; none where it made none.

    Each costs a launch; their bytes cross DRAM once more than caches might let them.
    """
    if count == 0:
        return ()
    terms_us = {
        "launch": count * (hardware.model.fill_us or hardware.model.launch_us),
        "dram": device_bytes / (hardware.peaks.dram_gb_s * 1e3 * hardware.model.dram_efficiency),
        "bus": host_bytes / BUS_BYTES_PER_US,
    }
    profile = LaunchProfile(
        kernel="copies and fills",
        grid=(0, 0, 0),
        block=(0, 0, 0),
        shared_bytes=0,
        occupancy=0.0,
        time_us=terms_us["launch"] + max(terms_us["dram"], terms_us["bus"]),
        terms_us={term: us for term, us in terms_us.items() if us > 0},
        figures={"copies": float(count), "dram_bytes": float(device_bytes)},
    )
    return (profile,)
