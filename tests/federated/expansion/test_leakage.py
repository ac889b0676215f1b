"""No party holds or is sent what the protocol denies it: all state and all messages are searched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from jgleak.federated.expansion import ExpansionClient, ExpansionServer, Neighbours, ThirdParty
from jgleak.federated.expansion.messages import ExpansionUpload

IDS = np.random.default_rng(0).integers(2**40, 2**62, 6)
"""So large that none turns up by chance."""

HISTORIES = ([0, 1, 2], [0, 1], [3], [3, 4], [5])


def dump(thing: Any) -> bytes:
    """All that can be reached from an object, whole numbers as 8 bytes. An unknown type fails: nothing is missed."""
    if thing is None or isinstance(thing, AESSIV | AESGCM):
        return b"|"
    if isinstance(thing, bytes):
        return thing + b"|"
    if isinstance(thing, int | np.integer):
        return (int(thing) % 2**64).to_bytes(8, "big") + b"|"
    if isinstance(thing, str):
        return thing.encode() + b"|"
    if isinstance(thing, np.ndarray):
        return thing.astype(">i8").tobytes() if thing.dtype in (np.int32, np.int64) else thing.tobytes()
    if isinstance(thing, Mapping):
        return b"".join(dump(key) + dump(value) for key, value in thing.items())
    if isinstance(thing, list | tuple):
        return b"".join(map(dump, thing))
    if isinstance(thing, np.random.Generator):
        state = thing.bit_generator.state["state"].values()
        return b"".join(number.to_bytes(16, order) for number in state for order in ("big", "little"))
    return dump(vars(thing))


class Run(NamedTuple):
    server: ExpansionServer
    third_party: ThirdParty
    clients: list[ExpansionClient]
    embeddings: np.ndarray
    uploads: list[bytes]
    replies: list[bytes]
    found: list[Neighbours]


@pytest.fixture(scope="module")
def run() -> Run:
    server, third_party = ExpansionServer(), ThirdParty(neighbours=3, rng=np.random.default_rng(1))
    table = np.random.default_rng(2).normal(size=(len(HISTORIES), 8)).astype(np.float32)
    clients = [
        ExpansionClient(IDS[items], row, keys=server.keys()) for items, row in zip(HISTORIES, table, strict=True)
    ]
    uploads = [client.upload() for client in clients]
    for upload in uploads:
        third_party.receive(upload)
    third_party.match()
    replies = [third_party.reply(client.handle) for client in clients]
    found = [client.receive(reply) for client, reply in zip(clients, replies, strict=True)]
    return Run(server, third_party, clients, table, uploads, replies, found)


def of_ids(ids: np.ndarray) -> list[bytes]:
    """In both byte orders."""
    return [int(i).to_bytes(8, order) for i in ids for order in ("big", "little")]


def keys(run: Run) -> list[bytes]:
    cipher = run.server.cipher
    derived = [
        cipher._derived(b"jgleak expansion: " + name, size) for name, size in ((b"items", 64), (b"embeddings", 32))
    ]
    return [cipher.secret, *derived]


def test_the_search_finds_what_is_there(run: Run) -> None:
    state = dump(run.clients[0])
    assert all(part in state for part in (run.server.cipher.secret, of_ids(IDS[:1])[0], run.embeddings[0].tobytes()))
    assert run.clients[0].handle in dump(run.third_party)
    with pytest.raises(TypeError):
        dump(object())


def test_the_third_party_has_no_id_no_key_and_no_embedding(run: Run) -> None:
    secret = [*of_ids(IDS), *keys(run), *(row.tobytes() for row in run.embeddings)]
    for place in (dump(run.third_party), *run.uploads, *run.replies):
        assert not any(part in place for part in secret)


def test_the_server_has_no_upload_and_nothing_of_a_user(run: Run) -> None:
    assert vars(run.server).keys() == {"cipher"}
    state = dump(run.server)
    uploads = [ExpansionUpload.from_bytes(message) for message in run.uploads]
    private = [*(up.handle for up in uploads), *(row.tobytes() for up in uploads for row in up.items)]
    private += [*of_ids(IDS), *(row.tobytes() for row in run.embeddings), *(up.sealed.tobytes() for up in uploads)]
    assert not any(part in state for part in private)


def test_a_client_gets_its_neighbours_embeddings_and_no_more(run: Run) -> None:
    for user, (items, client, reply) in enumerate(zip(HISTORIES, run.clients, run.replies, strict=True)):
        others = [u for u in range(len(HISTORIES)) if u != user]
        met = {u for u in others if set(HISTORIES[u]) & set(items)}
        held = dump(client) + dump(run.found[user]) + reply
        assert not any(part in held for part in of_ids(np.delete(IDS, items)))
        assert not any(run.clients[other].handle in held for other in others)
        assert {u for u in others if run.embeddings[u].tobytes() in held} == met
        theirs = [ExpansionUpload.from_bytes(run.uploads[u]).items for u in others]
        own = {row.tobytes() for row in ExpansionUpload.from_bytes(run.uploads[user]).items}
        foreign = {row.tobytes() for rows in theirs for row in rows} - own
        assert not any(part in held for part in foreign)


def test_the_order_of_ciphertexts_does_not_follow_that_of_ids() -> None:
    keys = ExpansionServer().keys()
    sent = [
        ExpansionUpload.from_bytes(ExpansionClient(order, [1.0], keys=keys).upload()).items
        for order in (range(50), range(49, -1, -1))
    ]
    np.testing.assert_array_equal(sent[0], sent[1])
    rows = [row.tobytes() for row in sent[0]]
    assert rows == sorted(rows)


def test_the_order_of_embeddings_does_not_follow_that_of_uploads() -> None:
    keys, third_party = ExpansionServer().keys(), ThirdParty(neighbours=29, rng=np.random.default_rng(0))
    clients = [ExpansionClient([1], [float(user)], keys=keys) for user in range(30)]
    for client in clients:
        third_party.receive(client.upload())
    third_party.match()
    found = [client.receive(third_party.reply(client.handle)) for client in clients[:2]]
    orders = [[user for user in one.embeddings[:, 0] if user > 1] for one in found]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(2, 30))
    assert orders[0] != orders[1] and orders[0] != sorted(orders[0])
