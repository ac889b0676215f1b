"""Encrypted rows of a gradient table: what a client sends to the aggregator, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64
from phe.paillier import PaillierPublicKey

from jgleak.federated.secure.encoding import FixedPoint
from jgleak.federated.secure.keys import fingerprint
from jgleak.federated.wire import Fields, as_array, pack, unpack

FIELDS: Fields = {
    "items": (np.int64, 1),
    "ciphertexts": (np.uint8, 3),
    "columns": (np.int64, 1),
    "addends": (np.int64, 1),
    "key": (np.uint8, 1),
    "code": (np.float64, 1),
}


@dataclass(frozen=True)
class Encrypted:
    """Rows of a table under encryption.

    Attributes:
      items: which rows, in the clear and distinct. Whoever sends only what she rated shows what she rated.
      rows: the ciphertexts of each row, ``P`` of them.
      columns: numbers in a row.
      addends: how many clients are in the sum.
    """

    items: Int64[np.ndarray, " N"]
    rows: list[list[int]]
    columns: int
    addends: int

    def to_bytes(self, public: PaillierPublicKey, code: FixedPoint) -> bytes:
        """The message; it names the key and the encoding."""
        width, parts = _width(public), -(-self.columns // code.slots(public.n.bit_length()))
        data = b"".join(number.to_bytes(width, "big") for row in self.rows for number in row)
        return pack(
            "encrypted gradients",
            FIELDS,
            items=self.items,
            ciphertexts=as_array(data).reshape(len(self.items), parts, width),
            columns=np.asarray([self.columns]),
            addends=np.asarray([self.addends]),
            key=fingerprint(public),
            code=_code(code),
        )

    @classmethod
    def from_bytes(cls, message: bytes, public: PaillierPublicKey, code: FixedPoint) -> Encrypted:
        """Read a message.

        Raises:
          ValueError: damaged bytes, another key, another encoding, a shape that does not fit, repeated items, or
            numbers that are no ciphertexts.
        """
        parts = unpack("encrypted gradients", FIELDS, message)
        if not np.array_equal(parts["key"], fingerprint(public)):
            raise ValueError("encrypted gradients: they are under another key; all parties of a sum need the same")
        if not np.array_equal(parts["code"], _code(code)):
            was = ", ".join(f"{number:g}" for number in parts["code"])
            raise ValueError(f"encrypted gradients: bound, fraction, addends are {was}; this party expects {code}")
        items, ciphertexts = parts["items"], parts["ciphertexts"]
        columns, addends = (int(parts[name].sum()) for name in ("columns", "addends"))
        wanted = len(items), -(-columns // code.slots(public.n.bit_length())), _width(public)
        if columns < 1 or addends < 1 or ciphertexts.shape != wanted:
            raise ValueError(f"encrypted gradients: shape {ciphertexts.shape} instead of {wanted}; send them again")
        if len(np.unique(items)) < len(items):
            raise ValueError("encrypted gradients: an item occurs twice; send one row an item")
        rows = [[int.from_bytes(part.tobytes(), "big") for part in row] for row in ciphertexts]
        if not all(0 < number < public.nsquare for row in rows for number in row):
            raise ValueError("encrypted gradients: a number is no ciphertext under this key; send them again")
        return cls(items, rows, columns, addends)


def _width(public: PaillierPublicKey) -> int:
    return (public.nsquare.bit_length() + 7) // 8


def _code(code: FixedPoint) -> np.ndarray:
    return np.asarray([code.bound, code.fraction, code.addends], np.float64)
