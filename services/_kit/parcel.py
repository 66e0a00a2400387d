"""States as they are sent: deflated where it pays, and none that a broker would not take."""

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

LARGEST_BYTES: Final = 1_000_000
"""As it is sent; just below what a broker takes by default."""
DEFLATED_FROM_BYTES: Final = 64 * 1024
"""States are columns of numbers that change little: above this size, packing pays."""
_DEFLATED: Final = ("content-encoding", b"deflate")


class TooLarge(ValueError):  # noqa: N818  it is named for what is wrong
    """A state that no broker takes."""

    def __init__(self, key: str, size: int) -> None:
        super().__init__(f"state of `{key}` has {size:,} bytes, too many for a record")


class Parcel(NamedTuple):
    """The value and headers of a record of a state topic."""

    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


def parcel_of(key: str, data: bytes) -> Parcel:
    """What a handler saved, ready to be sent. Raises TooLarge."""
    parcel = Parcel(data)
    if len(data) >= DEFLATED_FROM_BYTES:
        parcel = Parcel(zlib.compress(data, level=1), (_DEFLATED,))
    if len(parcel.value) > LARGEST_BYTES:
        raise TooLarge(key, len(parcel.value))
    return parcel


def contents(value: bytes, headers: Sequence[tuple[str, bytes]]) -> bytes:
    """What the handler saved."""
    return zlib.decompress(value) if _DEFLATED in map(tuple, headers) else value
