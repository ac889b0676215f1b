"""The whole protocol in one process, for training: three parties that exchange bytes only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import jax
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike

from jgleak.federated.expansion.cipher import SECRET, SESSION, Cipher
from jgleak.federated.expansion.client import ExpansionClient, Neighbours
from jgleak.federated.expansion.server import ExpansionServer
from jgleak.federated.expansion.third_party import ThirdParty


def expand(items: Sequence[ArrayLike], embeddings: ArrayLike, *, neighbours: int, key: Array) -> Iterator[Neighbours]:
    """Every user's anonymous neighbours, in the order of the users.

    They come one by one: all of Douban's together (3,000 users, 256 numbers, ten an item) take more than a gigabyte.

    Args:
      items: every user's rated items.
      embeddings: ``(users, D)``.
      neighbours: at most so many others an item.
      key: draws the neighbours and the session's secret: an experiment can be repeated, and whoever knows the key can
        decrypt. Real parties make a ``ExpansionServer()``, which takes its secret from the system.

    Raises:
      ValueError: as ``ExpansionClient`` and ``ThirdParty``; or not as many users as embeddings.
    """
    table = np.asarray(embeddings, np.float32)
    if table.ndim != 2 or len(table) != len(items):
        raise ValueError(f"embeddings: expected one row for each of {len(items)} users, got shape {table.shape}")
    drawn, own = (np.random.default_rng(np.asarray(jax.random.key_data(part))) for part in jax.random.split(key))
    server = ExpansionServer(Cipher(drawn.bytes(SECRET), drawn.bytes(SESSION)))
    third_party = ThirdParty(neighbours=neighbours, rng=own)  # from whose state the secret cannot be computed
    clients = [ExpansionClient(ids, row, keys=server.keys()) for ids, row in zip(items, table, strict=True)]
    for client in clients:
        third_party.receive(client.upload())
    third_party.match()
    return (client.receive(third_party.reply(client.handle)) for client in clients)
