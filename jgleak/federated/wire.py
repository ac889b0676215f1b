"""Messages between parties: named arrays in one byte string; nothing in it is ever executed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

Fields = Mapping[str, tuple[type[np.generic], int]]
"""What a message holds: every array's name, type and number of axes."""


def pack(kind: str, fields: Fields, **arrays: np.ndarray) -> bytes:
    """One message: exactly the arrays of ``fields``, under the message's kind."""
    return save({f"{kind}/{name}": np.ascontiguousarray(arrays[name], dtype) for name, (dtype, _) in fields.items()})


def unpack(kind: str, fields: Fields, message: bytes) -> dict[str, np.ndarray]:
    """The arrays of a message, by name.

    Raises:
      ValueError: the bytes are damaged, or are no message of this kind.
    """
    try:
        found = load(message)
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(f"{kind}: these bytes are damaged or no message of jgleak ({error}); send it again") from error
    wanted = {f"{kind}/{name}" for name in fields}
    if set(found) != wanted:
        raise ValueError(f"{kind}: the message holds {sorted(found)}, not {sorted(wanted)}; it went to the wrong party")
    arrays = {name: found[f"{kind}/{name}"] for name in fields}
    for name, (dtype, axes) in fields.items():
        if arrays[name].dtype != dtype or arrays[name].ndim != axes:
            was = f"{arrays[name].dtype} with {arrays[name].ndim} axes"
            raise ValueError(f"{kind}: {name} is {was}, not {np.dtype(dtype)} with {axes}; send the message again")
    return arrays


def as_array(data: bytes) -> np.ndarray:
    """Bytes as ``uint8``."""
    return np.frombuffer(data, np.uint8)
