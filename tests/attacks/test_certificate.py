"""Certificates in a sentence."""

from __future__ import annotations

import pytest

from jgleak.attacks.certificate import Certificate


@pytest.mark.parametrize(
    ("certificate", "sentence"),
    [
        (
            Certificate("unique", 1, 9, False, 0.0, ("the graph is connected",)),
            "unique: no other reconstruction of up to 9 nodes explains the gradient (1 condition, see .conditions)",
        ),
        (
            Certificate("k_graphs", 3, 9, True, 0.0, ("so", "and so")),
            "k_graphs: exactly 3 reconstructions of 9 nodes explain the gradient (2 conditions, see .conditions)",
        ),
        (
            Certificate("at_least_k", 1, 9, False, 0.0),
            "at_least_k: 1 reconstruction of up to 9 nodes found; others were not excluded (0 conditions)",
        ),
    ],
)
def test_a_certificate_is_printed_as_a_sentence(certificate: Certificate, sentence: str) -> None:
    assert str(certificate) == sentence
    assert repr(certificate).startswith("Certificate(status=")
