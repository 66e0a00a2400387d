"""The CPU that kernels in an image are compiled for, and whether this machine can run them.

numba compiles for the CPU of the machine and keys what it compiled by its name and features. An
image is built on one machine and runs on others, so its kernels are compiled for a level that every
server has, and so is what a service compiles in addition: one process has one target.
"""

import os
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

import numba
from numba.core.codegen import get_host_cpu_features

SHIPPED: Final = "HIRL_KERNELS"
"""Variable that names the folder of kernels in an image. It is only read."""
LEVEL: Final = "x86-64-v3"
_NAMES: Final = "sse3 ssse3 sse4.1 sse4.2 popcnt cx16 avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave"
FEATURES: Final = ",".join(f"+{name}" for name in _NAMES.split())
"""What the level means. numba would add the features of the machine to a name alone."""


@cache
def shipped() -> Path | None:
    """The kernels of the image, if there are any; from then on numba compiles for their CPU.

    Where the level does not fit, such as on ARM, kernels are compiled for the machine instead. Code
    for a CPU that is not there would end the process.
    """
    folder = os.environ.get(SHIPPED)
    if not folder:
        return None
    if fits(cast(Any, get_host_cpu_features)()):
        config = cast(Any, numba).config
        config.CPU_NAME, config.CPU_FEATURES = LEVEL, FEATURES
    return Path(folder)


def fits(features: str) -> bool:
    """Whether a CPU with these features, as LLVM writes them, runs what the level names."""
    return set(FEATURES.split(",")) <= set(features.split(","))
