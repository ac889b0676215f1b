"""The decrypted sum of encrypted gradients is the sum of the gradients, or an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from phe.paillier import PaillierPublicKey

from jgleak.federated.secure import Aggregator, FixedPoint, GradientClient, Keys, generate, keys
from jgleak.federated.secure import message as messages
from jgleak.federated.secure.keys import PUBLIC, fingerprint, read_private, read_public, whole_bytes
from jgleak.federated.secure.message import Encrypted
from jgleak.federated.wire import Fields, pack

KEYS = generate(512)
"""For tests only: far too short to hide anything."""

CODE = FixedPoint(bound=1.0, fraction=20, addends=4)


def through(tables: list[np.ndarray], items: list[Any], code: FixedPoint = CODE) -> tuple[np.ndarray, np.ndarray]:
    """The whole path: every client encrypts, the server adds, a client decrypts."""
    clients, server = [GradientClient(KEYS.private, code) for _ in tables], Aggregator(KEYS.public, code)
    for client, ids, table in zip(clients, items, tables, strict=True):
        server.add(client.encrypt(ids, table))
    return clients[-1].decrypt(server.total())


@settings(max_examples=40, deadline=None)
@given(data=st.data(), clients=st.integers(1, 4), columns=st.integers(1, 45))
def test_sums_are_exact_in_fixed_point(data: st.DataObject, clients: int, columns: int) -> None:
    tables, items = [], []
    for _ in range(clients):
        ids = data.draw(st.lists(st.integers(0, 5), unique=True, max_size=3))
        tables.append(data.draw(arrays(np.float64, (len(ids), columns), elements=st.floats(-1, 1))))
        items.append(ids)
    plain, whole = np.zeros((6, columns)), np.zeros((6, columns), np.int64)
    for ids, table in zip(items, tables, strict=True):
        plain[ids] += table
        whole[ids] += np.rint(table * 2**20).astype(np.int64)
    found, total = through(tables, items)
    assert found.tolist() == sorted(set().union(*items))
    np.testing.assert_array_equal(total, whole[found] * CODE.step)
    assert np.abs(total - plain[found]).max(initial=0) <= clients * CODE.step / 2 + 1e-12


def test_extremes_fill_the_range_and_do_not_overflow() -> None:
    for sign in (1, -1):
        row = sign * np.ones((1, 70))
        row[0, ::2] *= -1
        np.testing.assert_array_equal(through([row] * 4, [[0]] * 4)[1], 4 * row)


def test_what_could_overflow_is_refused() -> None:
    client, server = GradientClient(KEYS.private, CODE), Aggregator(KEYS.public, CODE)
    with pytest.raises(
        ValueError, match="largest entry is 1.5, above the fixed-point bound 1, so a sum could overflow"
    ):
        client.encrypt([0], [[1.5]])
    with pytest.raises(ValueError, match="largest entry is nan"):
        client.encrypt([0], [[np.nan]])
    sent = client.encrypt([0], [[1.0]])
    for _ in range(4):
        server.add(sent)
    with pytest.raises(ValueError, match="5 clients in a sum with room for 4"):
        server.add(sent)
    with pytest.raises(ValueError, match="5 clients in a sum with room for 4"):
        other = Aggregator(KEYS.public, CODE)
        other.add(sent)
        other.add(server.total())


def test_an_overflow_that_slips_through_is_detected() -> None:
    public = read_public(KEYS.public)
    client = GradientClient(KEYS.private, CODE)
    for number in (4 * 2**20 + 1, -(4 * 2**20) - 1, 1 << CODE.width, public.n // 3):
        forged = Encrypted(np.asarray([0]), [[public.raw_encrypt(number % public.n)]], 1, 1)
        with pytest.raises(ValueError, match="total: a sum exceeds 4 numbers of at most 1: it overflowed"):
            client.decrypt(forged.to_bytes(public, CODE))


@settings(max_examples=50, deadline=None)
@given(data=st.data(), columns=st.integers(1, 40), addends=st.integers(1, 9))
def test_packing_adds_slot_by_slot(data: st.DataObject, columns: int, addends: int) -> None:
    code = FixedPoint(bound=0.3, fraction=10, addends=addends)
    number = st.integers(-code.limit, code.limit)
    rows = data.draw(arrays(np.int64, (addends, columns), elements=number))
    packed = [code.pack(row, 256) for row in rows]
    assert len(packed[0]) == -(-columns // code.slots(256))
    assert 2 ** (code.width - 2) <= addends * code.limit < 2 ** (code.width - 1)  # a sign, and no bit to spare
    sums = [sum(parts) for parts in zip(*packed, strict=True)]
    assert max(map(abs, sums)) < 2**254
    np.testing.assert_array_equal(code.unpack(sums, columns, 256), rows.sum(0))


def test_limits_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        FixedPoint(bound=0.0)
    with pytest.raises(ValueError, match="below half a step"):
        FixedPoint(bound=0.1, fraction=2)
    with pytest.raises(ValueError, match="bits a number, of 62"):
        FixedPoint(fraction=60)
    with pytest.raises(ValueError, match="use a longer key"):
        FixedPoint().slots(20)
    assert FixedPoint(bound=3.0, fraction=0, addends=1).limit == 3 and FixedPoint(bound=0.25, fraction=2).limit == 1
    empty: list[dict[str, Any]] = [{"bound": bound} for bound in (np.inf, np.nan, -1.0)]
    for fields in (*empty, {"addends": 0}, {"fraction": -1}):
        with pytest.raises(ValueError, match="is empty; bound and addends must be positive, fraction at least 0"):
            FixedPoint(**fields)


def test_slots_fill_what_a_plaintext_holds() -> None:
    """A slot may have 62 bits, and a key needs one bit more than its slots: plaintexts have signs."""
    assert FixedPoint(bound=1.0, fraction=60, addends=1).width == 62
    with pytest.raises(ValueError, match="needs 63 bits a number, of 62"):
        FixedPoint(bound=1.0, fraction=61, addends=1)
    width = CODE.width
    assert [CODE.slots(bits) for bits in (width + 1, 2 * width, 2 * width + 1)] == [1, 1, 2]
    with pytest.raises(ValueError, match=f"a key of {width} bits holds no number of {width}"):
        CODE.slots(width)


def test_plaintexts_have_signs() -> None:
    """From the middle of the modulus on they are negative."""
    client, public = GradientClient(KEYS.private, CODE), read_public(KEYS.public)
    half = public.n // 2
    for plain, signed in ((0, 0), (half, half), (half + 1, -half), (public.n - 1, -1)):
        assert client._signed(public.raw_encrypt(plain)) == signed


def test_the_server_cannot_read_and_equal_rows_look_different() -> None:
    client, server = GradientClient(KEYS.private, CODE), Aggregator(KEYS.public, CODE)
    first, again = (
        Encrypted.from_bytes(client.encrypt([0, 1], np.zeros((2, 1))), server._public, CODE).rows for _ in range(2)
    )
    assert len({row[0] for row in first + again}) == 4
    private = read_private(KEYS.private)
    held = repr({name: vars(part) if name == "_public" else part for name, part in vars(server).items()})
    assert not any(str(prime) in held for prime in (private.p, private.q))


def test_keys_survive_the_wire_and_bad_ones_are_refused() -> None:
    public, private = read_public(KEYS.public), read_private(KEYS.private)
    assert private.public_key == public
    assert public.n.bit_length() == 512
    assert fingerprint(public).size == 16
    assert repr(KEYS.private) not in repr(KEYS)
    for bits in (254, 257):
        with pytest.raises(ValueError, match=f"{bits} is no length of a key"):
            generate(bits)
    short = generate(256)
    assert read_public(short.public).n.bit_length() == 256
    assert read_private(short.private).public_key == read_public(short.public)
    with pytest.raises(ValueError, match="wrong party"):
        Aggregator(KEYS.private, CODE)
    with pytest.raises(ValueError, match="damaged"):
        GradientClient(KEYS.private[:-1], CODE)
    p, even = whole_bytes(private.p), whole_bytes(private.p - 1)
    fields: Fields = {"p": (np.uint8, 1), "q": (np.uint8, 1)}
    for first, second in ((p, p), (p, even), (even, p), (whole_bytes(3), whole_bytes(5))):
        with pytest.raises(ValueError, match="its factors are no two large primes"):
            GradientClient(pack("private key", fields, p=first, q=second), CODE)
    for n in (0, 15, private.p, 2 * private.p):  # none, short, prime, even
        with pytest.raises(ValueError, match="no product of two large primes"):
            Aggregator(pack("public key", PUBLIC, n=whole_bytes(n)), CODE)


def test_keys_are_as_long_as_is_safe_unless_a_length_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, pair = [], (read_public(KEYS.public), read_private(KEYS.private))
    monkeypatch.setattr(keys, "generate_paillier_keypair", lambda n_length: asked.append(n_length) or pair)
    assert [generate(), generate(4096)] == [KEYS, KEYS] and asked == [2048, 4096]


def test_a_whole_number_has_no_byte_too_many() -> None:
    for number, wanted in ((1, [1]), (255, [255]), (256, [1, 0]), (2**64 - 1, [255] * 8)):
        assert whole_bytes(number).tolist() == wanted
    assert (
        messages._width(PaillierPublicKey(2**512 - 1)) == 128 and messages._width(PaillierPublicKey(2**512 + 1)) == 129
    )


def test_messages_that_do_not_fit_are_refused() -> None:
    public, other = read_public(KEYS.public), generate(512)
    client, server = GradientClient(KEYS.private, CODE), Aggregator(KEYS.public, CODE)
    message = client.encrypt([0, 4], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="nothing was added yet"):
        server.total()
    with pytest.raises(ValueError, match="under another key"):
        server.add(GradientClient(other.private, CODE).encrypt([0], [[0.0]]))
    with pytest.raises(ValueError, match="bound, fraction, addends are 1, 10, 4"):
        server.add(GradientClient(KEYS.private, FixedPoint(1.0, 10, 4)).encrypt([0], [[0.0]]))
    with pytest.raises(ValueError, match="damaged"):
        server.add(message[:-1])
    server.add(message)
    with pytest.raises(ValueError, match="2 numbers a row, others have 3"):
        server.add(client.encrypt([0], np.zeros((1, 2))))
    sent = Encrypted.from_bytes(message, public, CODE)
    for rows, items, what in (
        ([[0], [1]], [0, 4], "a number is no ciphertext"),
        (sent.rows, [4, 4], "an item occurs twice"),
    ):
        with pytest.raises(ValueError, match=what):
            server.add(Encrypted(np.asarray(items), rows, 3, 1).to_bytes(public, CODE))
    with pytest.raises(ValueError, match=r"shape \(2, 1, 128\) instead of"):
        server.add(Encrypted(sent.items, sent.rows, 3, 0).to_bytes(public, CODE))
    with pytest.raises(ValueError, match=r"shape \(2, 0, 128\) instead of"):
        server.add(Encrypted(sent.items, [[], []], 0, 1).to_bytes(public, CODE))
    for number, fits in ((0, False), (1, True), (public.nsquare - 1, True), (public.nsquare, False)):
        forged = Encrypted(np.array([0]), [[number]], 3, 1).to_bytes(public, CODE)
        if fits:
            assert Encrypted.from_bytes(forged, public, CODE).rows == [[number]]
            continue
        with pytest.raises(ValueError, match="a number is no ciphertext under this key"):
            Encrypted.from_bytes(forged, public, CODE)
    for items, table in (([0], [0.0]), ([0], np.zeros((1, 0))), ([0, 1], np.zeros((1, 2)))):
        with pytest.raises(ValueError, match=r"expected \(N, D\) with N items"):
            client.encrypt(items, table)
    with pytest.raises(ValueError, match="add up its gradients"):
        client.encrypt([1, 1], np.zeros((2, 1)))


def test_no_private_key_is_shown() -> None:
    assert Keys(b"open", b"hidden") == Keys(b"open", b"hidden")
    assert "hidden" not in repr(Keys(b"open", b"hidden"))
