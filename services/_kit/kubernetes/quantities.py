"""Kubernetes quantities such as 250m and 1.5Gi, as millicores and MiB."""

from decimal import ROUND_CEILING, Decimal, InvalidOperation
from functools import lru_cache
from typing import Final

_SUFFIXES: Final = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"),
    "P": Decimal("1e15"), "E": Decimal("1e18"),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


@lru_cache(maxsize=4096)
def amount(text: str) -> Decimal:
    """Cores or bytes; raises ValueError for what is no quantity."""
    stripped = text.strip()
    number = stripped.rstrip("numkMGTPEi")
    suffix = stripped[len(number) :]
    try:
        # An exponent (12e6, 1E3) has digits behind its letter, so it is not taken for a suffix.
        return Decimal(number) * _SUFFIXES[suffix]
    except (InvalidOperation, KeyError):
        raise ValueError(f"expected a quantity such as 250m or 1Gi, got {text!r:.40}") from None


def millicores(text: str) -> int:
    """CPU, rounded up as the scheduler does."""
    return int((amount(text) * 1000).to_integral_value(ROUND_CEILING))


def mebibytes(text: str) -> int:
    """Memory, rounded up."""
    return int((amount(text) / 2**20).to_integral_value(ROUND_CEILING))
