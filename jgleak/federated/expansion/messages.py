"""The two messages that pass through the third party. Neither holds an id, a name, a rating or a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, UInt8

from jgleak.federated.expansion.cipher import ITEM, NONCE, TAG
from jgleak.federated.wire import Fields, as_array, pack, unpack

HANDLE = 16
"""Bytes of a handle."""

UPLOAD: Fields = {"handle": (np.uint8, 1), "items": (np.uint8, 2), "sealed": (np.uint8, 1)}
REPLY: Fields = {"items": (np.uint8, 2), "sealed": (np.uint8, 2), "index": (np.int32, 2)}


@dataclass(frozen=True)
class ExpansionUpload:
    """From a client to the third party.

    Attributes:
      handle: a random name for this expansion, under which the client fetches its reply.
      items: the encrypted ids, in the order of the ciphertexts.
      sealed: the user's encrypted embedding.
    """

    handle: bytes
    items: UInt8[np.ndarray, "n 24"]
    sealed: UInt8[np.ndarray, " L"]

    def __post_init__(self) -> None:
        _check("upload", self.items, self.sealed)
        if len(self.handle) != HANDLE:
            raise ValueError(f"upload: a handle has {HANDLE} bytes, this one {len(self.handle)}; send the upload again")

    def to_bytes(self) -> bytes:
        """The message."""
        return pack("upload", UPLOAD, handle=as_array(self.handle), items=self.items, sealed=self.sealed)

    @classmethod
    def from_bytes(cls, message: bytes) -> ExpansionUpload:
        """Read a message; raises ``ValueError`` where it is damaged or no upload."""
        parts = unpack("upload", UPLOAD, message)
        return cls(parts["handle"].tobytes(), parts["items"], parts["sealed"])


@dataclass(frozen=True)
class Reply:
    """From the third party to a client.

    Attributes:
      items: the client's own ciphertexts.
      sealed: the encrypted embeddings of its ``m`` neighbours, in random order.
      index: row ``i`` lists those who rated item ``i`` too, as rows of ``sealed``; -1 where there are fewer than K.
    """

    items: UInt8[np.ndarray, "n 24"]
    sealed: UInt8[np.ndarray, "m L"]
    index: Int32[np.ndarray, "n K"]

    def __post_init__(self) -> None:
        _check("reply", self.items, self.sealed)
        if len(self.index) != len(self.items):
            raise ValueError(f"reply: {len(self.index)} rows of neighbours for {len(self.items)} items; fetch it again")
        if self.index.size and not -1 <= self.index.min() <= self.index.max() < len(self.sealed):
            raise ValueError(f"reply: a neighbour is none of the {len(self.sealed)} embeddings sent; fetch it again")

    def to_bytes(self) -> bytes:
        """The message."""
        return pack("reply", REPLY, items=self.items, sealed=self.sealed, index=self.index)

    @classmethod
    def from_bytes(cls, message: bytes) -> Reply:
        """Read a message; raises ``ValueError`` where it is damaged or no reply."""
        return cls(**unpack("reply", REPLY, message))


def _check(kind: str, items: np.ndarray, sealed: np.ndarray) -> None:
    if items.shape[1] != ITEM:
        raise ValueError(f"{kind}: an encrypted item has {ITEM} bytes, these have {items.shape[1]}; send it again")
    if sealed.shape[-1] <= NONCE + TAG:
        raise ValueError(f"{kind}: {sealed.shape[-1]} bytes are too few for an encrypted embedding; send it again")
