"""The clients' cipher: equal item ids have equal ciphertexts, and only who has the key can tell which.

Whoever matches must see that two ciphertexts are of one item, so encryption is deterministic. FedGNN (section 3.4) has
clients encrypt under the server's *public* key. That is not safe: whoever knows the key can encrypt all ids (a few
thousands) and look the ciphertexts up, and the third party may well know a key that is public. (A randomised
homomorphic scheme has nothing to look up, but nothing to match either.) So the key here is symmetric, goes from the
server to the clients and never to the third party.

What stays: determinism shows which ciphertexts are equal and how often each occurs, so popular items can be guessed
from public popularity; and one client who lends its key to the third party opens all histories.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from jaxtyping import Float32, Int64, UInt8

from jgleak.federated.wire import Fields, as_array, pack, unpack

SECRET, SESSION, NONCE, TAG = 32, 16, 12, 16
"""Bytes of the secret, of a session's name, and of AES-GCM's nonce and tag."""

ITEM = 8 + 16
"""Bytes of an encrypted item id: 64 bits and AES-SIV's tag."""

FIELDS: Fields = {"secret": (np.uint8, 1), "session": (np.uint8, 1)}


@dataclass(frozen=True)
class Cipher:
    """What the clients of one expansion share, and the third party must not have.

    Item ids are encrypted with AES-256-SIV (RFC 5297; deterministic, authenticated), user embeddings with AES-256-GCM
    (randomised, authenticated), under keys derived from ``secret`` by HKDF. A session has a secret of its own, so that
    ciphertexts of two expansions cannot be compared.

    Attributes:
      secret: 32 bytes.
      session: 16 bytes, the expansion's name; not secret.
    """

    secret: bytes = field(repr=False)
    session: bytes

    def __post_init__(self) -> None:
        if len(self.secret) != SECRET or len(self.session) != SESSION:
            raise ValueError(
                f"keys: a secret has {SECRET} bytes and a session {SESSION}, these have {len(self.secret)} and "
                f"{len(self.session)}; ask the server for the keys again"
            )

    @classmethod
    def new(cls) -> Cipher:
        """A fresh secret and session from the system's randomness."""
        return cls(secrets.token_bytes(SECRET), secrets.token_bytes(SESSION))

    @classmethod
    def from_bytes(cls, message: bytes) -> Cipher:
        """Read the server's message; raises ``ValueError`` where it is none."""
        parts = unpack("keys", FIELDS, message)
        return cls(parts["secret"].tobytes(), parts["session"].tobytes())

    def to_bytes(self) -> bytes:
        """The server's message to its clients. It holds the secret: it travels over encrypted channels only."""
        return pack("keys", FIELDS, secret=as_array(self.secret), session=as_array(self.session))

    def encrypt(self, items: Int64[np.ndarray, " n"]) -> UInt8[np.ndarray, "n 24"]:
        """One ciphertext an id."""
        siv, session = self._items, [self.session]
        parts = [siv.encrypt(int(item).to_bytes(8, "big"), session) for item in items]
        return as_array(b"".join(parts)).reshape(-1, ITEM)

    def decrypt(self, rows: UInt8[np.ndarray, "n 24"]) -> Int64[np.ndarray, " n"]:
        """The ids.

        Raises:
          ValueError: a ciphertext was altered, or is of another session.
        """
        siv, session = self._items, [self.session]
        try:
            return np.asarray([int.from_bytes(siv.decrypt(row.tobytes(), session), "big") for row in rows], np.int64)
        except InvalidTag as error:
            raise ValueError(
                "items: a ciphertext does not decrypt; it was altered or is of another session; expand again"
            ) from error

    def seal(self, embedding: Float32[np.ndarray, " D"]) -> UInt8[np.ndarray, " L"]:
        """An encrypted embedding of ``L = 4 D + 28`` bytes; no two are alike."""
        nonce = secrets.token_bytes(NONCE)
        return as_array(nonce + self._embeddings.encrypt(nonce, embedding.astype("<f4").tobytes(), self.session))

    def unseal(self, sealed: UInt8[np.ndarray, "m L"]) -> Float32[np.ndarray, "m D"]:
        """The embeddings; inverse of ``seal`` row by row.

        Raises:
          ValueError: a sealed embedding was altered, or is of another session.
        """
        gcm, (count, length) = self._embeddings, sealed.shape
        data = memoryview(sealed.tobytes())
        rows = (data[at : at + length] for at in range(0, count * length, length))
        try:
            plain = b"".join(gcm.decrypt(row[:NONCE], row[NONCE:], self.session) for row in rows)
        except (InvalidTag, ValueError) as error:
            raise ValueError(
                "embeddings: one does not decrypt; it was altered or is of another session; expand again"
            ) from error
        width = (length - NONCE - TAG) // 4
        return np.frombuffer(plain, "<f4").astype(np.float32).reshape(count, width)

    @cached_property
    def _items(self) -> AESSIV:
        return AESSIV(self._derived(b"jgleak expansion: items", 64))

    @cached_property
    def _embeddings(self) -> AESGCM:
        return AESGCM(self._derived(b"jgleak expansion: embeddings", 32))

    def _derived(self, purpose: bytes, length: int) -> bytes:
        return HKDF(algorithm=SHA256(), length=length, salt=self.session, info=purpose).derive(self.secret)
