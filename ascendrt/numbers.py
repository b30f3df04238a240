"""Numbers that callers give: whole ones of any type, in a range, told by their names.

Must never import numpy.
"""

from __future__ import annotations

import math
import operator
from typing import SupportsIndex

MOST_BYTES = (1 << 63) - 1
_INT32 = 1 << 31
_LONG_NS = 1 << 62
_NS = {"milliseconds": 1e6, "seconds": 1e9}


def whole(
    value: SupportsIndex, name: str, least: int | None = None, most: int | None = None
) -> int:
    """Return a whole number of any type (numpy's too) as an int.

    Raises: TypeError for what is none, ValueError for one outside of least to most.
    """
    if type(value) is not int:
        try:
            value = operator.index(value)
        except TypeError:
            raise TypeError(f"{name} is {value!r}; it must be a whole number") from None
    if least is not None and value < least:
        raise ValueError(f"{name} is {value}; it must be at least {least}")
    if most is not None and value > most:
        raise ValueError(f"{name} is {value}; it must be at most {most}")
    return value


def int32(value: SupportsIndex, name: str) -> int:
    """Return a number that the interface takes as an int32_t; the library judges its value."""
    return whole(value, name, -_INT32, _INT32 - 1)


def byte(value: SupportsIndex) -> int:
    """Return what a fill may fill with."""
    number = whole(value, "byte")
    if not 0 <= number <= 255:
        raise ValueError(f"byte is {number}; it must be 0 to 255")
    return number


def allocation(size_bytes: SupportsIndex) -> int:
    """Return a size for an allocation."""
    size = whole(size_bytes, "size_bytes", most=MOST_BYTES)
    if size < 1:
        raise ValueError(f"size_bytes is {size}; an allocation has at least 1 byte")
    return size


def room_for(size_bytes: int, offset_bytes: int, all_bytes: int) -> int:
    """Return the bytes from an offset to the end. Raises: ValueError when they lack."""
    room = all_bytes - offset_bytes
    if offset_bytes < 0 or not 0 <= size_bytes <= room:
        raise ValueError(
            f"{size_bytes} bytes at offset {offset_bytes} do not fit in {all_bytes} bytes"
        )
    return room


def nanoseconds(value: float, name: str, unit: str = "milliseconds") -> int:
    """Return a time of milliseconds, or "seconds", in nanoseconds; infinity is some 146 years.

    Raises: TypeError for what is no number, ValueError for one that says no time.
    """
    try:
        scaled = float(value) * _NS[unit] if not isinstance(value, (str, bytes)) else None
    except (TypeError, OverflowError):
        scaled = None
    if scaled is None:
        raise TypeError(f"{name} is {value!r}; it must be a number of {unit}")
    if math.isnan(scaled):
        raise ValueError(f"{name} is not a number; it must be a number of {unit}")
    return round(max(-_LONG_NS, min(scaled, _LONG_NS)))
