"""A client of FedMF: encrypts its item gradients, and decrypts the sum over clients."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike

from jgleak.federated.secure.encoding import FixedPoint
from jgleak.federated.secure.keys import read_private
from jgleak.federated.secure.message import Encrypted


class GradientClient:
    """Holds the private key, like every client and unlike the server (FedMF, Chai et al.).

    Unlike FedMF, which encrypts each number, a ciphertext holds as many as fit the key (62 at 2,048 bits by default).

    Args:
      private: the clients' key, ``Keys.private``.
      code: the encoding that all parties agreed on.

    Raises:
      ValueError: bytes that are no private key.
    """

    def __init__(self, private: bytes, code: FixedPoint) -> None:
        self._private, self._code = read_private(private), code

    def encrypt(self, items: ArrayLike, gradients: ArrayLike) -> bytes:
        """The message for the aggregator.

        Args:
          items: distinct rows of the item table, ``(N,)``. The server sees them: send all items, zeros for those not
            rated, to hide the history (FedMF's full upload), or only the rated ones, and show it (its partial upload).
          gradients: ``(N, D)``, at most ``code.bound`` in absolute value.

        Raises:
          ValueError: shapes that do not fit, repeated items, values above the bound or not finite.
        """
        ids, table = np.asarray(items, np.int64), np.asarray(gradients, np.float64)
        if table.ndim != 2 or not table.shape[1] or ids.shape != table.shape[:1]:
            raise ValueError(f"gradients: expected (N, D) with N items, got {table.shape} for items {ids.shape}")
        if len(np.unique(ids)) < len(ids):
            raise ValueError("items: an item occurs twice; add up its gradients and send one row")
        public, code = self._private.public_key, self._code
        packed = [code.pack(row, public.n.bit_length()) for row in code.encode(table)]
        rows = [[public.raw_encrypt(number % public.n) for number in row] for row in packed]
        return Encrypted(ids, rows, table.shape[1], 1).to_bytes(public, code)

    def decrypt(self, message: bytes) -> tuple[Int64[np.ndarray, " N"], Float[np.ndarray, "N D"]]:
        """The items of the aggregator's message and the sums of their gradients.

        Raises:
          ValueError: a message that does not fit the key or the encoding, or a sum that overflowed.
        """
        public, code = self._private.public_key, self._code
        total = Encrypted.from_bytes(message, public, code)
        bits = public.n.bit_length()
        signed = [[self._signed(number) for number in row] for row in total.rows]
        whole = [code.unpack(row, total.columns, bits) for row in signed]
        return total.items, code.decode(np.asarray(whole, np.int64).reshape(-1, total.columns))

    def _signed(self, ciphertext: int) -> int:
        """The plaintext between ``-n / 2`` and ``n / 2``."""
        plain, n = self._private.raw_decrypt(ciphertext), self._private.public_key.n
        return plain - n if plain > n // 2 else plain
