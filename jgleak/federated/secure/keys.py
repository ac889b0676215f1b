"""Paillier keys as bytes: the public one for the server, the private one for the clients."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gmpy2 import is_prime  # type: ignore[attr-defined]  # compiled, without stubs
from phe.paillier import PaillierPrivateKey, PaillierPublicKey, generate_paillier_keypair

from jgleak.federated.wire import Fields, as_array, pack, unpack

SHORTEST = 256
"""Bits of the shortest key that is made. Nothing below 2,048 is secure; shorter ones are for tests."""

PUBLIC: Fields = {"n": (np.uint8, 1)}
PRIVATE: Fields = {"p": (np.uint8, 1), "q": (np.uint8, 1)}


@dataclass(frozen=True)
class Keys:
    """Both keys, serialised. ``private`` never goes to the server."""

    public: bytes
    private: bytes = field(repr=False)


def generate(bits: int = 2048) -> Keys:
    """A Paillier key pair whose modulus ``n = p q`` has ``bits`` bits.

    One client makes it and hands it to the others over encrypted channels; the server gets the public key only (FedMF,
    Chai et al.). So any one client can read what any other sends, if the server shows it.

    Raises:
      ValueError: fewer bits than 256, or an odd number of them.
    """
    if bits < SHORTEST or bits % 2:
        raise ValueError(
            f"bits: {bits} is no length of a key; give an even number from 256, and at least 2048 for security"
        )
    pair: tuple[Any, Any] = generate_paillier_keypair(n_length=bits)  # phe has no types
    public, private = pair
    return Keys(
        pack("public key", PUBLIC, n=whole_bytes(public.n)),
        pack("private key", PRIVATE, p=whole_bytes(private.p), q=whole_bytes(private.q)),
    )


def read_public(key: bytes) -> PaillierPublicKey:
    """Inverse of the serialisation; raises ``ValueError`` where the bytes are no public key."""
    n = _whole(unpack("public key", PUBLIC, key)["n"])
    if n.bit_length() < SHORTEST or n % 2 == 0 or is_prime(n):
        raise ValueError("public key: its modulus is no product of two large primes; ask a client for the key again")
    return PaillierPublicKey(n)


def read_private(key: bytes) -> PaillierPrivateKey:
    """Inverse of the serialisation; raises ``ValueError`` where the bytes are no private key."""
    parts = unpack("private key", PRIVATE, key)
    p, q = _whole(parts["p"]), _whole(parts["q"])
    if p == q or (p * q).bit_length() < SHORTEST or not (is_prime(p) and is_prime(q)):
        raise ValueError("private key: its factors are no two large primes; ask a client for the key again")
    return PaillierPrivateKey(PaillierPublicKey(p * q), p, q)


def fingerprint(public: PaillierPublicKey) -> np.ndarray:
    """16 bytes that name a key."""
    return as_array(hashlib.sha256(whole_bytes(public.n).tobytes()).digest()[:16])


def whole_bytes(number: int) -> np.ndarray:
    """A whole number, most significant byte first."""
    return as_array(number.to_bytes((number.bit_length() + 7) // 8, "big"))


def _whole(data: np.ndarray) -> int:
    return int.from_bytes(data.tobytes(), "big")
