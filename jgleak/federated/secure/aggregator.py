"""The server of FedMF: adds encrypted gradients item by item, with the public key only."""

from __future__ import annotations

import numpy as np
from phe.paillier import EncryptedNumber

from jgleak.federated.secure.encoding import FixedPoint
from jgleak.federated.secure.keys import read_public
from jgleak.federated.secure.message import Encrypted


class Aggregator:
    """Sums what clients send: a product of ciphertexts is a ciphertext of the sum (Paillier, 1999).

    It learns which rows each client sends and how many clients send each row, never a value.

    Args:
      public: the clients' public key, ``Keys.public``.
      code: the encoding that all parties agreed on.

    Raises:
      ValueError: bytes that are no public key.
    """

    def __init__(self, public: bytes, code: FixedPoint) -> None:
        self._public, self._code = read_public(public), code
        self._rows: dict[int, list[EncryptedNumber]] = {}
        self._columns = self._addends = 0

    def add(self, message: bytes) -> None:
        """Add one client's rows, or another aggregator's total.

        Raises:
          ValueError: a message that does not fit the key or the encoding, rows of another width, or more clients than
            the encoding has room for.
        """
        sent = Encrypted.from_bytes(message, self._public, self._code)
        if self._addends and sent.columns != self._columns:
            raise ValueError(f"encrypted gradients: {sent.columns} numbers a row, others have {self._columns}")
        if self._addends + sent.addends > self._code.addends:
            raise ValueError(
                f"encrypted gradients: {self._addends + sent.addends} clients in a sum with room for "
                f"{self._code.addends}, so it could overflow; give FixedPoint more addends, or sum fewer clients"
            )
        self._columns, self._addends = sent.columns, self._addends + sent.addends
        for item, row in zip(sent.items.tolist(), sent.rows, strict=True):
            numbers = [EncryptedNumber(self._public, number) for number in row]
            there = self._rows.get(item)
            self._rows[item] = [a + b for a, b in zip(there, numbers, strict=True)] if there else numbers

    def total(self) -> bytes:
        """The encrypted sums so far, for the clients.

        Raises:
          ValueError: nothing was added.
        """
        if not self._addends:
            raise ValueError("total: nothing was added yet; add the clients' messages first")
        items = sorted(self._rows)
        rows = [[number.ciphertext(be_secure=False) for number in self._rows[item]] for item in items]
        return Encrypted(np.asarray(items, np.int64), rows, self._columns, self._addends).to_bytes(
            self._public, self._code
        )
