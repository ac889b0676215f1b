"""Matching encrypted items gives what matching plain ones gives, and mistakes are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jgleak.federated.expansion import ExpansionClient, ExpansionServer, Neighbours, ThirdParty, expand
from jgleak.federated.expansion.cipher import NONCE, TAG
from jgleak.federated.expansion.messages import ExpansionUpload, Reply

HISTORIES = ([3, 1, 7], [7, 3], [9], [], [1, 9, 3, 4])


def embeddings(users: int, width: int = 3) -> np.ndarray:
    """One of its own for each user."""
    return np.arange(users * width, dtype=np.float32).reshape(users, width) / 7 - 1


def users_of(rows: np.ndarray, table: np.ndarray) -> list[int]:
    return [int(np.flatnonzero((table == row).all(1))[0]) for row in rows]


def raters(histories: Sequence[Sequence[int]], item: int, user: int) -> set[int]:
    """By brute force."""
    return {other for other, items in enumerate(histories) if item in items and other != user}


def protocol(histories: Sequence[Sequence[int]] = HISTORIES, **fields: Any) -> tuple[ThirdParty, list[ExpansionClient]]:
    server = ExpansionServer()
    third_party = ThirdParty(**({"neighbours": 2, "rng": np.random.default_rng(0)} | fields))
    table = embeddings(len(histories))
    return third_party, [
        ExpansionClient(items, row, keys=server.keys()) for items, row in zip(histories, table, strict=True)
    ]


def check(found: Neighbours, histories: Sequence[Sequence[int]], user: int, neighbours: int, table: np.ndarray) -> None:
    assert found.items.tolist() == list(histories[user])
    assert found.index.shape == (len(found.items), neighbours)
    for item, index, mask, rows in zip(found.items, found.index, found.mask, found.by_item(), strict=True):
        shown, all_of_them = users_of(rows[mask], table), raters(histories, item, user)
        assert shown == users_of(found.embeddings[index[mask]], table)
        assert len(shown) == len(set(shown)) == min(neighbours, len(all_of_them))
        assert set(shown) <= all_of_them
        assert not rows[~mask].any()
    met = users_of(found.embeddings, table)
    assert len(met) == len(set(met))
    assert set(range(len(met))) == set(found.index[found.mask].tolist())


@settings(max_examples=40, deadline=None)
@given(
    histories=st.lists(st.lists(st.integers(0, 9), unique=True, max_size=8), min_size=1, max_size=7),
    neighbours=st.integers(1, 7),
    seed=st.integers(0, 99),
)
def test_neighbours_are_those_of_plain_matching(histories: list[list[int]], neighbours: int, seed: int) -> None:
    third_party, clients = protocol(histories, neighbours=neighbours, rng=np.random.default_rng(seed))
    for client in clients:
        third_party.receive(client.upload())
    third_party.match()
    table = embeddings(len(histories))
    for user, client in enumerate(clients):
        check(client.receive(third_party.reply(client.handle)), histories, user, neighbours, table)


def test_the_whole_in_one_call_repeats_itself() -> None:
    histories = [*HISTORIES, *[[3, 7]] * 8]
    table = embeddings(len(histories))
    found, again, other = (list(expand(histories, table, neighbours=2, key=jax.random.key(s))) for s in (0, 0, 1))
    for user, (one, two) in enumerate(zip(found, again, strict=True)):
        check(one, histories, user, 2, table)
        np.testing.assert_array_equal(one.by_item(), two.by_item())
    assert any(not np.array_equal(one.by_item(), two.by_item()) for one, two in zip(found, other, strict=True))
    for rows, shape in ((table[:4], r"\(4, 3\)"), (table[:, 0], r"\(13,\)")):
        with pytest.raises(ValueError, match=f"one row for each of 13 users, got shape {shape}"):
            expand(histories, rows, neighbours=1, key=jax.random.key(0))


def test_every_other_rater_is_equally_likely() -> None:
    third_party, clients = protocol([[5]] * 5)
    uploads = [client.upload() for client in clients]
    table, counts = embeddings(5), np.zeros(5)
    draws = 400
    for seed in range(draws):
        third_party = ThirdParty(neighbours=2, rng=np.random.default_rng(seed))
        for upload in uploads:
            third_party.receive(upload)
        third_party.match()
        counts[users_of(clients[0].receive(third_party.reply(clients[0].handle)).embeddings, table)] += 1
    assert counts[0] == 0
    assert counts.sum() == 2 * draws
    assert np.abs(counts[1:] - draws / 2).max() < 5 * np.sqrt(draws / 4)


def test_ids_of_all_sizes_and_histories_of_none() -> None:
    big = 2**63 - 1
    found = list(expand([[0, big], [big], []], embeddings(3), neighbours=4, key=jax.random.key(0)))
    assert found[0].mask.sum(1).tolist() == [0, 1]
    assert found[2].by_item().shape == (0, 4, 3)
    with pytest.raises(ValueError, match="an id occurs twice"):
        protocol([[1, 1]])
    with pytest.raises(ValueError, match="ids lie in"):
        protocol([[-1]])
    with pytest.raises(ValueError, match="ids lie in"):
        protocol([[2**63]])
    with pytest.raises(ValueError, match="whole numbers"):
        protocol([[0.5]])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="one row of whole numbers, got int64 of shape"):
        protocol([[[1, 2]]])  # type: ignore[list-item]
    for embedding in ([np.nan], [], [[1.0]], 1.0):
        with pytest.raises(ValueError, match="embedding: expected D finite numbers"):
            ExpansionClient([1], embedding, keys=ExpansionServer().keys())
    with pytest.raises(ValueError, match="nothing to expand with"):
        protocol(neighbours=0)


@pytest.mark.usefixtures("unchecked")
def test_uploads_that_do_not_fit_are_refused() -> None:
    third_party, clients = protocol()
    first = ExpansionUpload.from_bytes(clients[0].upload())
    third_party.receive(first.to_bytes())
    with pytest.raises(ValueError, match="uploaded already"):
        third_party.receive(clients[0].upload())
    with pytest.raises(ValueError, match="damaged"):
        third_party.receive(clients[1].upload()[:-1])
    with pytest.raises(ValueError, match="wrong party"):
        third_party.receive(ExpansionServer().keys())
    with pytest.raises(ValueError, match="24 bytes, these have 23"):
        ExpansionUpload(first.handle, first.items[:, 1:], first.sealed)
    with pytest.raises(ValueError, match="a handle has 16 bytes"):
        ExpansionUpload(b"me", first.items, first.sealed)
    for length in (20, NONCE + TAG):  # the second has room for no number
        with pytest.raises(ValueError, match=f"upload: {length} bytes are too few for an encrypted embedding"):
            ExpansionUpload(first.handle, first.items, first.sealed[:length])
    ExpansionUpload(first.handle, first.items, first.sealed[: NONCE + TAG + 4])
    with pytest.raises(ValueError, match="a ciphertext occurs twice"):
        third_party.receive(ExpansionUpload(b"x" * 16, first.items[[0, 0]], first.sealed).to_bytes())
    with pytest.raises(ValueError, match="all users need the same width"):
        third_party.receive(ExpansionUpload(b"x" * 16, first.items, first.sealed[:-4]).to_bytes())


def test_order_of_steps_and_unknown_users() -> None:
    third_party, clients = protocol()
    third_party.receive(clients[0].upload())
    with pytest.raises(ValueError, match="nothing was matched yet"):
        third_party.reply(clients[0].handle)
    third_party.match()
    with pytest.raises(ValueError, match="nothing was uploaded under this handle"):
        third_party.reply(clients[1].handle)
    with pytest.raises(ValueError, match="matching is over"):
        third_party.receive(clients[1].upload())
    with pytest.raises(ValueError, match="matching is over"):
        third_party.match()


@pytest.mark.usefixtures("unchecked")
def test_altered_replies_are_refused() -> None:
    third_party, clients = protocol()
    for client in clients:
        third_party.receive(client.upload())
    third_party.match()
    message = third_party.reply(clients[0].handle)
    reply = Reply.from_bytes(message)

    def altered(name: str) -> bytes:
        parts = {key: value.copy() for key, value in vars(reply).items()}
        parts[name][0, 0] ^= 1
        return Reply(**parts).to_bytes()

    with pytest.raises(ValueError, match="items: a ciphertext does not decrypt"):
        clients[0].receive(altered("items"))
    with pytest.raises(ValueError, match="embeddings: one does not decrypt"):
        clients[0].receive(altered("sealed"))
    with pytest.raises(ValueError, match="not the ones uploaded"):
        clients[1].receive(message)
    with pytest.raises(ValueError, match="a ciphertext does not decrypt"):
        ExpansionClient(HISTORIES[0], np.ones(3), keys=ExpansionServer().keys()).receive(message)
    with pytest.raises(ValueError, match="embeddings of 3 numbers instead of 4"):
        wide = ExpansionClient(HISTORIES[0], np.ones(4), keys=clients_keys(clients[0]))
        wide.receive(message)
    with pytest.raises(ValueError, match="none of the 0 embeddings sent"):
        Reply(reply.items, reply.sealed[:0], reply.index)
    for wrong in (len(reply.sealed), -2):
        index = np.where(reply.index == reply.index.max(), np.int32(wrong), reply.index)
        with pytest.raises(ValueError, match=f"none of the {len(reply.sealed)} embeddings sent"):
            Reply(reply.items, reply.sealed, index)
    Reply(reply.items, reply.sealed[:1], np.zeros_like(reply.index))
    with pytest.raises(ValueError, match="reply: 20 bytes are too few for an encrypted embedding"):
        Reply(reply.items, reply.sealed[:, :20], reply.index)
    with pytest.raises(ValueError, match="rows of neighbours"):
        Reply(reply.items[:1], reply.sealed, reply.index)


def clients_keys(client: ExpansionClient) -> bytes:
    return client._cipher.to_bytes()


def test_an_altered_item_matches_nothing() -> None:
    third_party, clients = protocol([[1], [1]])
    upload = ExpansionUpload.from_bytes(clients[0].upload())
    bad = upload.items.copy()
    bad[0, 0] ^= 1
    third_party.receive(ExpansionUpload(upload.handle, bad, upload.sealed).to_bytes())
    third_party.receive(clients[1].upload())
    third_party.match()
    assert not clients[1].receive(third_party.reply(clients[1].handle)).mask.any()
