"""A user's part in an expansion: encrypted items and a sealed embedding go out, anonymous neighbours come back."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float32, Int32, Int64
from numpy.typing import ArrayLike

from jgleak.federated.expansion.cipher import Cipher
from jgleak.federated.expansion.messages import HANDLE, ExpansionUpload, Reply


@dataclass(frozen=True)
class Neighbours:
    """The users who rated what this user rated, known by their embeddings only.

    Attributes:
      items: the user's items, in the order she gave them.
      embeddings: her ``m`` distinct neighbours, in random order. FedGNN joins these to the user's node, and not to the
        items (footnote 9).
      index: the neighbours of each item as rows of ``embeddings``; -1 where there are fewer than K.
    """

    items: Int64[np.ndarray, " n"]
    embeddings: Float32[np.ndarray, "m D"]
    index: Int32[np.ndarray, "n K"]

    @property
    def mask(self) -> Bool[np.ndarray, "n K"]:
        """Where there is a neighbour."""
        return self.index >= 0

    def by_item(self) -> Float32[np.ndarray, "n K D"]:
        """The neighbours' embeddings item by item, zero where ``mask`` is false."""
        padded = np.concatenate([self.embeddings, np.zeros((1, self.embeddings.shape[1]), np.float32)])
        return padded[self.index]


class ExpansionClient:
    """One user with her items and embedding; ratings take no part.

    Of every neighbour shown she learns the embedding and which of her items they share; a neighbour met at two items is
    seen to be one. She gets no id of a user, and no item that she has not rated. An embedding still is a model of its
    user's taste: with the public item embeddings it predicts what that user thinks of every item.
    """

    def __init__(self, items: ArrayLike, embedding: ArrayLike, *, keys: bytes) -> None:
        """Take part in an expansion.

        Args:
          items: distinct ids, at least 0.
          embedding: ``D`` numbers, kept in single precision.
          keys: the server's message.

        Raises:
          ValueError: ids that are no distinct whole numbers, no finite embedding, or keys that cannot be read.
        """
        self._items, self._embedding = _ids(items), _vector(embedding)
        self._cipher = Cipher.from_bytes(keys)
        self.handle = secrets.token_bytes(HANDLE)

    def upload(self) -> bytes:
        """The message for the third party. Sorted ciphertexts: the order of ids must not show."""
        rows = self._cipher.encrypt(self._items)
        order = np.lexsort(rows.T[::-1])
        return ExpansionUpload(self.handle, rows[order], self._cipher.seal(self._embedding)).to_bytes()

    def receive(self, message: bytes) -> Neighbours:
        """Read the third party's reply.

        Raises:
          ValueError: a damaged reply, ciphertexts that do not decrypt, another user's items, or embeddings of another
            width.
        """
        reply = Reply.from_bytes(message)
        items = self._cipher.decrypt(reply.items)
        if not np.array_equal(np.sort(items), np.sort(self._items)):
            raise ValueError("reply: its items are not the ones uploaded; fetch it under your own handle")
        order = np.argsort(items)[np.argsort(np.argsort(self._items))]
        embeddings = self._cipher.unseal(reply.sealed)
        if embeddings.shape[1] != len(self._embedding):
            was = embeddings.shape[1]
            raise ValueError(f"reply: embeddings of {was} numbers instead of {len(self._embedding)}; expand again")
        return Neighbours(self._items, embeddings, reply.index[order])


def _ids(items: ArrayLike) -> Int64[np.ndarray, " n"]:
    ids = np.asarray(items)
    if ids.ndim != 1 or (ids.size and not np.issubdtype(ids.dtype, np.integer)):
        raise ValueError(f"items: expected one row of whole numbers, got {ids.dtype} of shape {ids.shape}; give ids")
    if ids.size and (ids.min() < 0 or ids.max() >= 2**63):
        raise ValueError(f"items: ids lie in 0..2^63 - 1, these in {ids.min()}..{ids.max()}; number the items from 0")
    if len(np.unique(ids)) < len(ids):
        raise ValueError("items: an id occurs twice; give each rated item once")
    return ids.astype(np.int64)


def _vector(embedding: ArrayLike) -> Float32[np.ndarray, " D"]:
    vector = np.asarray(embedding, np.float32)
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise ValueError(f"embedding: expected D finite numbers, got an array of shape {vector.shape}")
    return vector
