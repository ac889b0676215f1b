"""The loop: side by side as one by one, best so far, early stop, clock, few compilations, and what users may set."""

from __future__ import annotations

import dataclasses
from functools import partial
from itertools import count, pairwise
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jgleak.attacks.attack import Budget
from jgleak.attacks.matching import loop, run
from jgleak.attacks.matching.dlg import DLG, RECIPE, WITH_LABELS
from jgleak.attacks.matching.glg import RECIPE as GLG_RECIPE
from jgleak.attacks.matching.glg import Penalty
from jgleak.attacks.matching.invergrad import RECIPE as INVERGRAD_RECIPE
from jgleak.attacks.matching.objectives import Guess
from jgleak.attacks.matching.options import configured, settings
from jgleak.attacks.matching.problem import pose
from jgleak.attacks.matching.recipe import init, on_device, relax_free, step
from jgleak.attacks.matching.reduction import Reduction
from jgleak.attacks.matching.run import STRIDE, compilations_of_the_loop
from jgleak.attacks.matching.starts import Sparse
from jgleak.attacks.registry import get_attack
from jgleak.federated import Knowledge, Observation, fedsgd

LONG = Budget(time_limit=100.0)
QUICK = configured(WITH_LABELS, {"steps": "60", "restarts": "2"})


@pytest.fixture(scope="module")
def clients(lab: Any) -> tuple[list[Observation], list[Knowledge], list[Any]]:
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    graphs = [lab.random(n, n) for n in (4, 6, 7, 5, 8)]
    seen = [fedsgd(model, lab.params(model), [g], lab.space, loss="ce") for g in graphs]
    return seen, [Knowledge(lab.space, n=g.n) for g in graphs], list(jax.random.split(jax.random.key(0), 5))


def many(recipe: Any, clients: Any, **more: Any) -> Any:
    seen, known, keys = clients
    return loop.invert_many(recipe, seen, known, keys=keys, budget=more.pop("budget", LONG), **more)


@pytest.mark.long
def test_side_by_side_as_one_by_one_and_without_new_shapes(clients: Any) -> None:
    together = many(QUICK, clients)
    before = compilations_of_the_loop()
    again = many(QUICK, tuple(part[:3] for part in clients))
    assert compilations_of_the_loop() == before + 1, "five clients fill a run of eight, three one of four"
    many(QUICK, tuple(part[1:5] for part in clients))
    assert compilations_of_the_loop() == before + 1
    for first, second in zip(together, again, strict=False):
        assert first.best.isomorphic(second.best)
        assert first.gradient_distance == pytest.approx(second.gradient_distance, rel=1e-3)
        np.testing.assert_allclose(first.adjacency, second.adjacency, atol=2e-2)


def test_small_pieces_make_the_whole_and_rest_when_they_are_done(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = [one.info["matching_losses"] for one in many(QUICK, clients)]
    recipe = dataclasses.replace(QUICK, target=1.5 * np.median(np.max(losses, axis=1)), steps=3 * STRIDE)
    whole = many(recipe, clients, trace=True)
    assert 1 < len({one.info["steps"] for one in whole}), "some are done before others"
    monkeypatch.setattr(run, "CACHED", 2)
    monkeypatch.setattr(run, "lanes", lambda clients: 2)
    stepped: list[int] = []
    monkeypatch.setattr(run, "advance", lambda *given, own=run.advance: stepped.append(1) or own(*given))
    assert run.piece(8, recipe.restarts) == 1
    for one, other in zip(whole, many(recipe, clients, trace=True), strict=True):
        assert one.best.isomorphic(other.best)
        assert one.info["steps"] == other.info["steps"]
        np.testing.assert_allclose(one.adjacency, other.adjacency, atol=2e-2)
        np.testing.assert_allclose(one.info["trace"], other.info["trace"], rtol=5e-2)
    assert 8 < len(stepped) < 7 * 8, "eight pieces, seven strides, and some rest"


def test_relaxation_and_penalty_are_told_the_number_of_steps(clients: Any) -> None:
    """Features shown ``t`` times as large, and ``t`` times their sum added: the derivative is ``t²`` at every step.

    The data term is zero throughout: it is never below the target, and of equal ones the first is the best.
    """
    rate, steps = 1e-3, 6

    def growing(setting: Any, problem: Any, variables: Any, step: Any) -> Guess:
        guess = relax_free(setting, problem, variables, step)
        return guess._replace(nodes=step * guess.nodes)

    recipe = dataclasses.replace(
        RECIPE,
        relax=growing,
        objective=lambda found, seen: jnp.zeros(()),
        penalty=lambda setting, guess, step: step * jnp.sum(guess.nodes),
        optimiser=optax.sgd,
        lr=rate,
        target=0.0,
    )
    setting, problem = pose(clients[0][0], clients[1][0], infer=True)
    state = begun = init(recipe, setting, problem, key=jax.random.key(0))
    advance = jax.jit(partial(step, recipe, setting))
    for _ in range(steps):
        state = advance(problem, state)[0]
    fallen = np.asarray(begun.variables["nodes"] - state.variables["nodes"])[np.asarray(problem.mask)]
    np.testing.assert_allclose(fallen, rate * sum(t**2 for t in range(steps)), rtol=1e-3)
    np.testing.assert_array_equal(state.best["nodes"], begun.variables["nodes"])


def test_progress_trace_and_best_so_far(clients: Any) -> None:
    heard: list[Any] = []
    heard_of = {"progress": lambda steps, values: heard.append((steps, values)), "budget": Budget(time_limit=1e6)}
    found = many(QUICK, clients, trace=True, **heard_of)
    assert [steps for steps, _ in heard] == [1, 3, 9, 27, 60]
    assert all(np.all(later <= earlier) for (_, earlier), (_, later) in pairwise(heard))
    for one in found:
        trace = np.array(one.info["trace"])
        assert trace.shape == (2, 60)
        np.testing.assert_allclose(one.info["matching_loss"], trace.min(), rtol=1e-4)
        assert one.info["matching_loss"] < 0.2 * trace[:, 0].max()


def test_it_stops_when_all_are_done_and_when_the_time_is_up(clients: Any) -> None:
    easy = dataclasses.replace(QUICK, target=1e9)
    for one in many(easy, clients, trace=True):
        assert (one.stop, one.info["steps"], len(one.info["trace"][0])) == ("converged", 0, 1)
    ended = many(dataclasses.replace(QUICK, steps=5000), clients, budget=Budget(time_limit=1e-6))
    assert {one.stop for one in ended} == {"time"} and {one.info["steps"] for one in ended} == {1}


def test_every_client_has_its_own_time_and_they_share_it(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock that is a second later at every look: two of five clients' .4 seconds are not over, three are."""
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=partial(next, count())))
    ended = many(dataclasses.replace(QUICK, steps=5000), clients, budget=Budget(time_limit=0.4))
    for one in ended:
        assert (one.stop, one.info["steps"]) == ("time", 3)
        assert one.info["seconds_matching"] == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    ("first", "later", "limit", "strides"),
    [
        (7.0, 7.0, 60.0, [1, 2, 2, 1, 1, 1, 1]),
        (1.0, 6.0, 60.0, [1, 2, 3, 2, 1, 1, 1]),
        (90.0, 0.0, 100.0, [1, 1, 4, 12, 36, 6]),
        (100.0, 1.0, 60.0, [1]),
        (1.0, 1.0, np.inf, [1, 2, 6, 18, 33]),
    ],
)
def test_time_is_kept_within_a_step_however_long_that_takes(
    clients: Any, monkeypatch: pytest.MonkeyPatch, first: float, later: float, limit: float, strides: list[int]
) -> None:
    """Twice as many steps as were made, and no more than half of the time left allows; the last begins in time."""
    made, own = list[int](), run.MatchingRun.advance

    def slow(running: run.MatchingRun, steps: int) -> Any:
        made.append(steps)
        return own(running, steps)

    def now() -> float:
        return first * bool(made) + later * max(sum(made) - 1, 0)

    monkeypatch.setattr(run.MatchingRun, "advance", slow)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=now))
    (ended,) = many(QUICK, tuple(part[:1] for part in clients), budget=Budget(time_limit=limit))
    assert made == strides and ended.info["steps"] == sum(strides)


def test_an_accelerator_makes_whole_strides_with_the_same_result(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []
    given = {"trace": True, "progress": lambda steps, values: heard.append(steps)}
    part = tuple(part[:2] for part in clients)
    paced = many(QUICK, part, trace=True)
    for module in (loop, run):
        monkeypatch.setattr(module, "whole_strides", lambda: True)
    before = compilations_of_the_loop()
    whole = many(QUICK, part, **given)
    assert heard == [STRIDE, 60] and compilations_of_the_loop() == before + 1
    for one, other in zip(paced, whole, strict=True):
        np.testing.assert_allclose(one.info["trace"], other.info["trace"], rtol=5e-2)
        assert np.shape(other.info["trace"]) == (2, 60) and one.info["steps"] == other.info["steps"] == 60


def test_a_stride_is_not_longer_than_what_was_compiled(clients: Any) -> None:
    setting, problem = pose(clients[0][0], clients[1][0], infer=True)
    running = run.MatchingRun(on_device(QUICK), setting, [problem], clients[2][:1])
    for steps in (0, STRIDE + 1):
        with pytest.raises(ValueError, match=f"steps: expected 1 to {STRIDE}, got {steps}"):
            running.advance(steps)


def test_numbers_that_stop_being_finite_end_a_restart(clients: Any) -> None:
    wild = configured(RECIPE, {"steps": "60", "optimiser": "sgd", "lr": "1e30"})
    found = many(wild, clients)
    assert all(one.best is not None and np.isfinite(one.features).all() for one in found)
    short = [one for one in found if one.info["steps"] < 60]
    assert short and {one.stop for one in short} == {"diverged"}


@pytest.mark.parametrize("optimiser", ["adam", pytest.param("signed_adam", marks=pytest.mark.slow), "lbfgs"])
@pytest.mark.long
def test_every_optimiser_comes_closer(clients: Any, optimiser: str) -> None:
    rate = {} if optimiser == "lbfgs" else {"lr": 0.05}
    recipe = configured(WITH_LABELS, {"steps": 50, "optimiser": optimiser, **rate})
    for one in many(recipe, tuple(part[:1] for part in clients), trace=True):
        assert one.info["matching_loss"] < 0.5 * one.info["trace"][0][0]


@pytest.mark.parametrize(
    ("base", "options"),
    [(RECIPE, {"optimiser": name}) for name in ("adam", "signed_adam", "sgd", "lbfgs")]
    + [(RECIPE, {"init": name}) for name in ("bernoulli", "sparse", "0.5")]
    + [(GLG_RECIPE, {}), (GLG_RECIPE, {"optimiser": "lbfgs"}), (INVERGRAD_RECIPE, {})],
)
def test_steps_leave_a_state_of_the_first_ones_types(clients: Any, base: Any, options: dict[str, str]) -> None:
    """So that a second stride compiles nothing."""
    recipe = configured(base, options)
    setting, problem = pose(clients[0][0], clients[1][0], infer=True)
    before = jax.eval_shape(lambda problem, key: init(recipe, setting, problem, key=key), problem, jax.random.key(0))
    after = jax.eval_shape(lambda problem, state: step(recipe, setting, problem, state)[0], problem, before)
    for one, other in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert (one.dtype, one.weak_type) == (other.dtype, other.weak_type)


def test_known_edges_and_features_are_kept(lab: Any) -> None:
    truth = lab.random(6, 9)
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    seen = fedsgd(model, lab.params(model), [truth], lab.space, loss="ce")
    recipe = configured(WITH_LABELS, {"steps": "1"})
    for given in ({"adjacency": truth.adjacency}, {"features": truth.x}):
        found = loop.invert(recipe, seen, Knowledge(lab.space, **given), key=jax.random.key(0), budget=LONG)
        assert found.best is not None
        assert ("degrees" in found.info) == ("adjacency" in given)
        if "adjacency" in given:
            np.testing.assert_array_equal(found.best.edges, truth.edges)
            np.testing.assert_array_equal(lab.space.degrees(found.best.x), truth.degree)  # which its features state
        else:
            np.testing.assert_array_equal(found.best.x, truth.x)


def test_degrees_beyond_the_schema_are_searched_for(lab: Any) -> None:
    """A star of seven: its centre's degree is none that a feature can state, so no degree is taken from the edges."""
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    seen = fedsgd(model, lab.params(model), [lab.path([0] * 7)], lab.space, loss="ce")
    star = np.zeros((7, 7))
    star[0, 1:] = star[1:, 0] = 1.0
    path = np.diag(np.ones(6), 1) + np.diag(np.ones(6), -1)
    settings_ = [pose(seen, Knowledge(lab.space, adjacency=a), infer=True)[0].degree_column for a in (star, path)]
    assert settings_ == [None, lab.space.offsets[1]]


def test_a_batch_comes_back_as_graphs_of_the_batch(lab: Any) -> None:
    graphs = [lab.random(5, 0), lab.random(5, 1)]
    model = lab.model(layers=1, hidden=16, readout="pooled", readout_widths=())
    seen = fedsgd(model, lab.params(model), graphs, lab.space, loss="ce")
    found = loop.invert(QUICK, seen, Knowledge(lab.space, n=5), key=jax.random.key(0), budget=LONG)
    assert len(found.graphs) == 2 and found.adjacency is not None and found.adjacency.shape == (2, 5, 5)
    assert found.features is not None and found.features.shape == (2, 5, lab.space.width) and "trace" not in found.info


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stepps": "3"}, "option 'stepps': unknown; did you mean 'steps'"),
        ({"steps": "0"}, "option 'steps': expected a whole number from 1, got '0'"),
        ({"lr": "-1"}, "option 'lr': expected a positive number, got '-1'"),
        ({"optimiser": "adamw"}, "option 'optimiser': unknown 'adamw'; choose one of adam"),
        ({"objective": "l3"}, "option 'objective': unknown 'l3'"),
        ({"init": "left"}, "option 'init': expected a number or one of normal"),
        ({"edges": "hard"}, "option 'edges': unknown 'hard'; choose one of soft, rounded, sampled"),
    ],
)
def test_options_that_do_not_exist_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DLG.with_options(options)
    with pytest.raises(ValueError, match="this attack has no options"):
        get_attack("empty").with_options(options)


def test_options_change_nothing_else() -> None:
    base = settings(INVERGRAD_RECIPE)
    assert base["optimiser"] == "signed_adam" and base["lr"] == 0.1
    assert settings(configured(INVERGRAD_RECIPE, {"lr": 0.2})) == base | {"lr": 0.2}
    assert settings(configured(RECIPE, {"optimiser": "adam", "init": "0.5"})) == settings(RECIPE) | {"init": "at(0.5)"}
    with pytest.raises(ValueError, match="L-BFGS chooses its own rate"):
        configured(RECIPE, {"optimiser": "lbfgs", "lr": "1"})


def test_a_generator_takes_no_other_start() -> None:
    with pytest.raises(ValueError, match="option 'init': this attack starts from what public graphs have taught it"):
        get_attack("gi-gan").with_options({"init": "normal"})
    with pytest.raises(ValueError, match="option 'init'"):
        get_attack("graphdlg-refined").with_options({"init": "normal"})


def test_the_number_of_nodes_is_asked_for(lab: Any, clients: Any) -> None:
    with pytest.raises(
        ValueError, match=r"attack 'dlg' cannot run here: it needs the number of nodes; give it \(Knowledge\(n="
    ):
        DLG(clients[0][0], Knowledge(lab.space), key=jax.random.key(0))


def test_a_part_of_a_recipe_has_options_of_its_own() -> None:
    """They are set by their names, also beside another start; where no part has them they are unknown."""
    glg = configured(GLG_RECIPE, {"smoothness_weight": "0", "sketch": "12", "target": "1e-3"})
    assert (glg.penalty, glg.reduce, glg.target) == (Penalty(0.0), Reduction(sketch=12), 1e-3)
    assert settings(glg) == settings(GLG_RECIPE) | {"smoothness_weight": 0.0, "sketch": 12, "target": 1e-3}
    assert configured(GLG_RECIPE, {}) == GLG_RECIPE and hash(configured(GLG_RECIPE, {})) == hash(GLG_RECIPE)
    sparse = configured(RECIPE, {"init": "sparse", "start_edge": "0.2"})
    assert sparse.start == Sparse(0.2) and settings(sparse)["init"] == "sparse"
    with pytest.raises(ValueError, match="start_edge.*unknown"):
        configured(RECIPE, {"start_edge": "0.2"})


def test_more_starts_than_fit_into_memory_are_refused(clients: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line before anything is allocated; the same reckoning decides how many clients run together."""
    seen, known, keys = clients
    greedy = DLG.with_options({"restarts": str(10**9)})
    with pytest.raises(
        ValueError, match=r"1000000000 starts side by side of a graph of 4 nodes take about .* GiB, and 16"
    ):
        greedy(seen[0], known[0], key=keys[0])
    needed = loop._bytes(dataclasses.replace(RECIPE, restarts=10**9), seen[0], 4, 4, 1)
    assert f"take about {needed / 2**30:,.0f} GiB" in str(greedy.refusal(seen[0], known[0]))
    assert DLG.refusal(seen[0], known[0]) is None
    one = loop._bytes(RECIPE, seen[0], 4, 4, 1)
    assert loop._bytes(RECIPE, seen[0], 8, 4, 1) > one
    monkeypatch.setattr(loop, "LARGEST", one - 1)
    assert DLG.refusal(seen[0], known[0]) is not None
    monkeypatch.setattr(loop, "LARGEST", one)
    assert DLG.refusal(seen[0], known[0]) is None


@pytest.mark.parametrize(("cores", "most"), [(None, 1), (1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8)])
def test_lanes_are_a_power_of_two_that_the_cores_can_run(
    cores: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One where nothing tells the cores."""
    for name in ("process_cpu_count", "cpu_count"):
        monkeypatch.setattr(run.os, name, lambda: cores, raising=False)
    assert [run.lanes(clients) for clients in (1, most, most + 1, 100)] == [1, most, most, most]
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert run.lanes(100) == 1


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"keep": "first"}, "keep: expected one of best, last, got 'first'"),
        ({"masks": "all"}, "masks: expected one of searched, averaged, none, got 'all'"),
        ({"replay": ""}, "replay: expected one of steps, none, got ''"),
        ({"steps": 0}, "steps: expected a whole number from 1, got 0"),
        ({"restarts": 2.0}, "restarts: expected a whole number from 1, got 2.0"),
        ({"draws": True}, "draws: expected a whole number from 1, got True"),
        ({"lr": float("nan")}, "lr: expected a finite number, got nan"),
        ({"target": "small"}, "target: expected a finite number, got 'small'"),
        ({"optimiser": "adam"}, "optimiser: expected a function, got 'adam'"),
        ({"penalty": None}, "penalty: expected a function, got None"),
        ({"combine": 3}, "combine: expected a function, got 3"),
    ],
)
def test_a_recipe_is_checked_when_it_is_made(fields: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        dataclasses.replace(RECIPE, **fields)
