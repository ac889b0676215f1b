"""Privacy guarantees against closed forms."""

from __future__ import annotations

import math

import jax
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from jgleak.defenses import parse
from jgleak.defenses.privacy import privacy

SIZES = (40, 10)
KEY = jax.random.key(0)


def exact_gaussian(multiplier: float, delta: float) -> float:
    """Epsilon of the Gaussian mechanism by its exact condition (Balle and Wang 2018, Theorem 8)."""

    def excess(epsilon: float) -> float:
        a, b = 1 / (2 * multiplier), epsilon * multiplier
        return float(norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b) - delta)

    return float(np.asarray(brentq(excess, 0.0, 50.0)))


@pytest.mark.parametrize(("deviation", "rounds"), [(4.0, 1), (8.0, 1), (16.0, 25)])
def test_gaussian_epsilon_is_close_above_the_exact_one(deviation: float, rounds: int) -> None:
    """The update is clipped to 1, so two clients differ by 2; rounds compose as one with less noise."""
    found = privacy(parse(f"clip:1+gaussian:{deviation}"), SIZES, rounds=rounds)
    exact = exact_gaussian(deviation / 2 / math.sqrt(rounds), 1e-5)
    assert exact <= found.epsilon <= 1.2 * exact


def test_laplace_composes_to_at_most_the_sum() -> None:
    sensitivity = 2 * 0.1 * sum(SIZES)
    deviation = math.sqrt(2) * sensitivity * 10  # epsilon 0.1 a round
    one, many = (privacy(parse(f"clip-inf:0.1+laplace:{deviation}"), SIZES, rounds=r) for r in (1, 40))
    assert one.epsilon == pytest.approx(0.1, rel=1e-2)
    assert many.epsilon < 4.0  # advanced composition beats the sum
    assert many.per_coordinate == pytest.approx(2 * 0.1 * math.sqrt(2) / deviation)


def test_fedgnn_states_one_and_guarantees_thousands() -> None:
    """delta 0.1, lambda 0.2: epsilon 1 a coordinate and round, 2 delta / lambda; over all entries far more."""
    found = privacy(parse(f"clip-inf:0.1+laplace:{0.2 * math.sqrt(2)}"), (1000,), rounds=3)
    assert found.per_coordinate == pytest.approx(1.0)
    assert found.epsilon == pytest.approx(3000.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no noise"), ("clip:1", "no noise"), ("gaussian:1", "clip there"), ("gaussian:1+clip:1", "clip there"),
     ("prune:0.9", "no noise"), ("activations:1", "no noise")],
)  # fmt: skip
def test_nothing_is_promised_without_a_bound_and_noise(text: str, words: str) -> None:
    found = privacy(parse(text), SIZES)
    assert found.epsilon == math.inf and words in found.reason


def test_a_step_that_may_enlarge_the_update_undoes_the_bound() -> None:
    """Stochastic rounding to three levels leaves ``[1, 1/300, ..]`` with twelve times its norm."""
    for between in ("quantise:2", "sign", "bfloat16", "gaussian:0.001"):
        assert (
            privacy(parse(f"clip:1+{between}+gaussian:10"), SIZES).epsilon
            >= privacy(parse("clip:1+gaussian:10"), SIZES).epsilon
        )
    assert privacy(parse("clip:1+quantise:2+gaussian:10"), SIZES).epsilon == math.inf
    assert privacy(parse("clip:1+prune:0.5+gaussian:10"), SIZES).epsilon < 2


def test_the_best_pair_of_bound_and_noise_counts() -> None:
    best = privacy(parse("clip:1+gaussian:5"), SIZES).epsilon
    for text in ("gaussian:0.001+clip:1+gaussian:5", "clip:1+clip-layer:100+gaussian:5"):
        assert privacy(parse(text), SIZES).epsilon == best


@pytest.mark.parametrize("kind", ["clip", "clip-inf", "clip-layer"])
def test_bounds_are_reached_by_even_updates_and_by_none_exceeded(kind: str) -> None:
    """Among updates of a bounded norm those of equal entries have the largest sum."""
    even = {"a": np.full(40, 9.0, np.float32), "b": np.full(10, 9.0, np.float32)}
    uneven = {name: leaf * np.linspace(0, 1, leaf.size, dtype=np.float32) for name, leaf in even.items()}
    step = parse(f"{kind}:0.5").steps[0]
    assert step.kind.bounds is not None
    l1, l2 = step.kind.bounds(0.5, SIZES)
    for update, reached in ((even, True), (uneven, False)):
        left = np.concatenate([np.ravel(leaf) for leaf in parse(f"{kind}:0.5").apply(update, key=KEY).values()])
        assert np.abs(left).sum() <= l1 * (1 + 1e-5) and np.linalg.norm(left) <= l2 * (1 + 1e-5)
        assert not reached or (np.abs(left).sum(), np.linalg.norm(left)) == pytest.approx((l1, l2), rel=1e-5)


def test_a_reason_names_the_noise_and_the_sensitivity() -> None:
    """Twice the bound: what two clients may differ by."""
    told = privacy(parse("clip:1+gaussian:4"), SIZES).reason
    assert told == "Gaussian noise, 2 of the L2 sensitivity; Rényi accountant"
    told = privacy(parse(f"clip-inf:0.1+laplace:{math.sqrt(2) * 30}"), SIZES).reason
    assert told == "Laplace noise, 3 of the L1 sensitivity over 50 entries"


def test_one_entry_has_a_guarantee_where_it_is_bounded_and_has_laplace_noise() -> None:
    for text in ("clip-inf:0.1+gaussian:1", "clip:0.1+laplace:1", "clip-layer:0.1+laplace:1"):
        assert privacy(parse(text), SIZES).per_coordinate is None


def test_what_follows_the_noise_costs_nothing() -> None:
    plain, pruned = (privacy(parse(f"clip:1+gaussian:4{more}"), SIZES) for more in ("", "+prune:0.9"))
    assert plain.epsilon == pruned.epsilon


def test_every_tensor_has_an_entry() -> None:
    assert privacy(parse("clip:1+gaussian:4"), (1,)).epsilon < math.inf
    for sizes in ((), (3, 0)):
        with pytest.raises(ValueError, match="at least one entry"):
            privacy(parse("clip:1+gaussian:4"), sizes)


@pytest.mark.parametrize("arguments", [{"delta": 0.0}, {"delta": 1.0}, {"rounds": 0}, {"rounds": 1.5}])
@pytest.mark.usefixtures("unchecked")
def test_mistakes_are_named(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="delta|rounds"):
        privacy(parse("clip:1+gaussian:1"), SIZES, **arguments)  # type: ignore[arg-type]
