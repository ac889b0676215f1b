"""Equal ids have equal ciphertexts within a session and under its key only."""

from __future__ import annotations

import hmac

import numpy as np
import pytest

from jgleak.federated.expansion.cipher import Cipher
from jgleak.federated.wire import Fields, pack

ITEMS = np.asarray([0, 1, 255, 256, 2**63 - 1])


def test_keys_survive_the_wire() -> None:
    cipher = Cipher.new()
    there = Cipher.from_bytes(cipher.to_bytes())
    assert there == cipher
    np.testing.assert_array_equal(there.encrypt(ITEMS), cipher.encrypt(ITEMS))
    np.testing.assert_array_equal(there.decrypt(cipher.encrypt(ITEMS)), ITEMS)
    vector = np.asarray([1.5, -0.0, 3e-40, np.float32(0.1)], np.float32)
    assert there.unseal(cipher.seal(vector)[None]).tobytes() == vector.tobytes()


def test_equal_ids_match_within_a_session_only() -> None:
    cipher = Cipher.new()
    rows = cipher.encrypt(np.r_[ITEMS, ITEMS])
    np.testing.assert_array_equal(rows[:5], rows[5:])
    assert len(np.unique(rows, axis=0)) == 5
    for other in (Cipher(cipher.secret, b"another session!"), Cipher(bytes(32), cipher.session)):
        assert not (other.encrypt(ITEMS)[:, None] == rows[None]).all(-1).any()
        with pytest.raises(ValueError, match="of another session"):
            other.decrypt(rows)
        with pytest.raises(ValueError, match="of another session"):
            other.unseal(cipher.seal(np.ones(2, np.float32))[None])


def test_sealed_embeddings_never_look_alike() -> None:
    cipher, vector = Cipher.new(), np.ones(4, np.float32)
    assert len({cipher.seal(vector).tobytes() for _ in range(20)}) == 20
    with pytest.raises(ValueError, match="embeddings: one does not decrypt"):
        cipher.unseal(cipher.seal(vector)[None, :20])


def test_keys_are_derived_as_rfc_5869_says() -> None:
    """By the standard library's HMAC: extracted with the session as salt, expanded for one purpose."""
    cipher = Cipher(bytes(range(32)), b"some session ...")
    extracted = hmac.digest(cipher.session, cipher.secret, "sha256")
    block, wanted = b"", b""
    for number in (1, 2):
        block = hmac.digest(extracted, block + b"a purpose" + bytes([number]), "sha256")
        wanted += block
    assert cipher._derived(b"a purpose", 64) == wanted


def test_bad_keys_are_refused_and_secrets_not_printed() -> None:
    cipher = Cipher.new()
    assert repr(cipher.secret) not in repr(cipher)
    with pytest.raises(ValueError, match="damaged"):
        Cipher.from_bytes(cipher.to_bytes()[:-1])
    with pytest.raises(ValueError, match="a secret has 32 bytes and a session 16, these have 2 and 16"):
        Cipher(b"no", cipher.session)
    with pytest.raises(ValueError, match="these have 32 and 5"):
        Cipher(cipher.secret, b"short")
    wrong: Fields = {"secret": (np.int64, 1), "session": (np.uint8, 1)}
    with pytest.raises(ValueError, match="secret is int64 with 1 axes, not uint8 with 1"):
        Cipher.from_bytes(pack("keys", wrong, secret=np.zeros(4), session=np.zeros(16)))
    wrong = {"secret": (np.uint8, 2), "session": (np.uint8, 1)}
    with pytest.raises(ValueError, match="secret is uint8 with 2 axes, not uint8 with 1"):
        Cipher.from_bytes(pack("keys", wrong, secret=np.zeros((4, 8)), session=np.zeros(16)))
