"""A CUDA driver library that answers what a test wants, loaded as the real one is."""

import subprocess
from dataclasses import asdict
from pathlib import Path

from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.tools.cuda.driver_query import ATTRIBUTE_NUMBERS, GpuAttributes

SOURCE = Path(__file__).parents[1] / "fixtures/detector/driver.c"


def attributes_of(hardware: Hardware) -> GpuAttributes:
    """What the driver of a GPU would say that agrees with its profile in everything."""
    limits = asdict(hardware.limits)
    told = {key: limits[key] for key in limits if "allocation" not in key}
    return GpuAttributes(
        ordinal=0,
        name=hardware.name,
        compute_capability=hardware.compute_capability,
        memory_bytes=hardware.memory_bytes,
        sm_count=hardware.sm_count,
        clock_khz=round(hardware.boost_clock_mhz * 1e3),
        memory_clock_khz=round(hardware.memory_clock_mhz * 1e3),
        memory_bus_bits=hardware.memory_bus_bits,
        uuid=f"GPU-1f1f1f1f-1f1f-1f1f-1f1f-{'1f' * 5}00",
        driver_cuda=13000,
        l2_bytes=hardware.l2_bytes,
        **told,
    )


def build_driver(folder: Path, gpu: GpuAttributes, count: int = 1, init_result: int = 0) -> str:
    """Path of a library with the driver API's functions for `count` GPUs like `gpu`."""
    values = vars(gpu) | {
        "compute_capability_major": gpu.compute_capability[0],
        "compute_capability_minor": gpu.compute_capability[1],
    }
    pairs = ", ".join(f"{{{number}, {values[key]}}}" for key, number in ATTRIBUTE_NUMBERS.items())
    (folder / "values.h").write_text(
        f'#define NAME "{gpu.name}"\n#define MEMORY {gpu.memory_bytes}ull\n'
        f"#define DRIVER_CUDA {gpu.driver_cuda}\n"
        f"#define COUNT {count}\n#define INIT_RESULT {init_result}\n#define ATTRIBUTES {pairs}\n"
    )
    library = folder / "libdriver.so"
    flags = ["-x", "c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command = ["g++", *flags, f"-I{folder}", str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)
    return str(library)
