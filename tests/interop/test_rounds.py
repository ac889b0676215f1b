"""Rounds of federations that are not jgleak's: what is read of them, written down, and certain."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
import pytest

from jgleak.attacks.facts.registry import facts
from jgleak.attacks.registry import get_attack
from jgleak.datasets import MOLECULE_SPACE, load
from jgleak.defenses import Defense, Kind, Step, parse
from jgleak.federated import Knowledge, LocalTraining
from jgleak.federated import load as load_observation
from jgleak.federated.observation import flatten
from jgleak.federated.statistics import of_batch
from jgleak.graph import Graph
from jgleak.interop import GIN, Client, Linear, Recorder, Rounds
from jgleak.interop.weights import mean_gradient
from tests.interop.conftest import UNCOMPARED
from tests.interop.federation import LAYERS, Weights, initial, joined, logits, trained
from tests.interop.test_guide import RECORDING, run

pytestmark = UNCOMPARED

WIDTH, RATE = 32, 0.1
LOCAL = LocalTraining(RATE, loader=4)


@dataclasses.dataclass(frozen=True)
class Round:
    """One client's round: its graphs, and what it got and returned."""

    graphs: list[Graph]
    sent: Weights
    returned: Weights


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return list(load("embedded", graphs=6, max_nodes=12).graphs)


@pytest.fixture(scope="module")
def one_step(graphs: list[Graph]) -> Round:
    return round_of(graphs[:4], epochs=1)


@pytest.fixture(scope="module")
def four_steps(graphs: list[Graph]) -> Round:
    return round_of(graphs, epochs=2)


def round_of(graphs: list[Graph], *, epochs: int) -> Round:
    sent = initial(MOLECULE_SPACE, WIDTH)
    return Round(graphs, sent, trained(sent, graphs, MOLECULE_SPACE, rate=RATE, loader=4, epochs=epochs))


def rounds(epochs: int = 1, **changes: Any) -> Rounds:
    return Rounds(LAYERS, "bce", **{"local": LOCAL, "epochs": epochs, **changes})


def read(one: Round, epochs: int = 1, **changes: Any) -> Any:
    return rounds(epochs, **changes).observation(one.sent, one.returned, graphs=len(one.graphs))


@pytest.mark.parametrize(("fixture", "epochs"), [("one_step", 1), ("four_steps", 2)])
def test_facts_of_a_batch_in_training_mode_are_true(fixture: str, epochs: int, request: pytest.FixtureRequest) -> None:
    """Norms mix a batch's graphs, and what the first kernel's rows, the last bias and the buffers say holds."""
    one: Round = request.getfixturevalue(fixture)
    seen, space = read(one, epochs), MOLECULE_SPACE
    assert (seen.batch_size, seen.steps) == (len(one.graphs), {1: 1, 2: 4}[epochs])
    found = facts(seen, space).found
    nodes = np.concatenate([graph.x for graph in one.graphs])
    occurring = {f.name: {f.values[code] for code in set(nodes[:, i])} for i, f in enumerate(space.features)}
    values = found["feature_values"].value
    assert values and all(set(listed) <= occurring[name] for name, listed in values.items())
    assert len(set(values["atomic_number"])) > 1
    assert 1 < found["different_nodes"].value <= len(np.unique(nodes, axis=0))
    labels = {int(np.asarray(graph.y)) for graph in one.graphs}
    assert set(found["classes"].value) <= labels
    assert ("batch_statistics" in found) == (epochs == 1)
    with pytest.raises(ValueError, match="training mode mixes the nodes of all graphs of a step"):
        get_attack("census")(seen, Knowledge(space), key=jax.random.key(0))


def test_the_batchs_statistics_are_read_off_the_buffers(one_step: Round) -> None:
    x, edges, batch, _ = joined(one_step.graphs, MOLECULE_SPACE)
    _, wanted = logits(one_step.sent, x, edges, batch, 4)
    seen = read(one_step)
    found = of_batch(seen.model, seen.params, seen.statistics)
    for number, (mean, variance) in enumerate(found.values(), start=1):
        np.testing.assert_allclose(mean, wanted[f"conv{number}.nn.1.running_mean"], atol=1e-4)
        np.testing.assert_allclose(variance, wanted[f"conv{number}.nn.1.running_var"], rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_an_example_is_asked_with_the_weights_of_the_round(one_step: Round, graphs: list[Graph]) -> None:
    """What the clients' model says changes from round to round."""
    x, edges, batch, _ = joined(graphs[:1], MOLECULE_SPACE)

    def example(weights: Weights) -> Any:
        return x, edges, np.asarray(logits(weights, x, edges, batch, 1)[0])

    seen = read(one_step, example=example)
    assert seen.model == read(one_step).model
    with pytest.raises(ValueError, match="the description's output differs from the model's"):
        read(one_step, example=lambda weights: (*example(weights)[:2], 2 * example(weights)[2]))


def test_steps_follow_from_graphs_loader_and_epochs(graphs: list[Graph]) -> None:
    """The last step of a pass may have fewer graphs; five of four a step are two steps."""
    local = rounds(3)._local(5)
    assert (local.steps, local.loader, local.rate) == (6, 4, RATE)
    assert rounds(3)._local(4).steps == 3


def test_a_recorder_writes_what_invert_reads(one_step: Round, tmp_path: Path) -> None:
    recorder = Recorder(rounds(), tmp_path / "rounds", MOLECULE_SPACE)
    path = recorder.write(one_step.sent, one_step.returned, graphs=4, number=3, client="site 1/a")
    assert path is not None and path.name == "round-003-client-site%201%2Fa.safetensors"
    seen, space = load_observation(path)
    assert seen.batch_size == 4 and space.width == MOLECULE_SPACE.width
    for name, leaf in flatten(read(one_step).update).items():
        np.testing.assert_array_equal(flatten(seen.update)[name], leaf)


def test_the_pages_loop_records_every_client(
    graphs: list[Graph], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run("rounds", RECORDING, model=LAYERS, space=MOLECULE_SPACE)
    names |= {"sent": initial(MOLECULE_SPACE, WIDTH), "clients": [graphs[:4], graphs[4:]]}
    names["train"] = lambda sent, own: trained(sent, own, MOLECULE_SPACE, rate=RATE, loader=8, epochs=1)
    run("loop", RECORDING, **names)
    assert [load_observation(path)[0].batch_size for path in sorted((tmp_path / "rounds").iterdir())] == [4, 2]


def test_a_recorder_warns_and_goes_on(one_step: Round, tmp_path: Path) -> None:
    broken = {**one_step.returned, "out.bias": np.array([np.nan], np.float32)}
    with pytest.warns(UserWarning, match="round 1 of client 0 is not recorded: .*'out.bias' holds NaN"):
        assert Recorder(rounds(), tmp_path).write(one_step.sent, broken, graphs=4, number=1, client=0) is None
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(UserWarning, match="not recorded: .*file"):
        Recorder(rounds(), blocked).write(one_step.sent, one_step.returned, graphs=4, number=1, client=0)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_every_client_and_round_has_a_file_of_its_own(one_step: Round, tmp_path: Path) -> None:
    """Also where names differ in signs that no file's name holds, and where nobody says which round it is."""
    recorder, given = Recorder(rounds(), tmp_path), (one_step.sent, one_step.returned)
    for number, client in [(1, "a/b"), (1, "a_b"), (1, "a%2Fb"), (None, "a/b"), (None, "a/b")]:
        assert recorder.write(*given, graphs=np.int64(4), number=number, client=client)
    names = ["round-001-client-a%252Fb", "round-001-client-a%2Fb", "round-001-client-a_b"]
    names += ["round-002-client-a%2Fb", "round-003-client-a%2Fb"]
    assert sorted(path.stem for path in tmp_path.iterdir()) == names


def test_no_exception_stops_a_recorder(one_step: Round, tmp_path: Path) -> None:
    """Whatever a caller's own example or the arrays raise."""
    recorder = Recorder(rounds(example=lambda weights: weights["none"]), tmp_path)
    with pytest.warns(UserWarning, match="round 1 of client 0 is not recorded: 'none'"):
        assert recorder.write(one_step.sent, one_step.returned, graphs=4, number=1, client=0) is None


def test_what_did_not_come_back_is_frozen_after_one_step_alone(one_step: Round, four_steps: Round) -> None:
    """NVFlare's ExcludeVars leaves variables out. After several steps they are other than they were sent."""
    left = [dataclasses.replace(one, returned=without(one.returned, "conv2.nn.3")) for one in (one_step, four_steps)]
    seen = read(left[0])
    assert seen.model.frozen == ("layers_1/conv/out_kernel", "layers_1/conv/bias")
    with pytest.raises(ValueError, match="'conv2.nn.3.bias' was not returned, and .* in the 4 local steps"):
        read(left[1], 2)


def without(weights: Weights, prefix: str) -> Weights:
    return {name: a for name, a in weights.items() if not name.startswith(f"{prefix}.")}


@pytest.mark.parametrize("text", ["clip:0.1", "gaussian:0.5", "bfloat16", "bfloat16+gaussian:0.5"])
def test_a_defended_round_returns_the_defended_mean_gradient(text: str, four_steps: Round) -> None:
    """Whoever reads the weights that came back reads what the defence left; buffers say nothing any more."""
    key, defense, local = jax.random.key(3), parse(text), rounds(2)._local(len(four_steps.graphs))
    sent, returned = four_steps.sent, four_steps.returned
    changed, known = rounds(2).defended(sent, returned, defense, graphs=len(four_steps.graphs), key=key)
    assert known.client.clipped == defense.scales and known.client.noise == defense.deviation(sent)
    assert known.client.rounded_to == ("bfloat16" if "bfloat16" in text else None)
    coarse = dataclasses.replace(rounds(2), client=Client(rounded_to="bfloat16"))
    again = coarse.defended(sent, returned, parse("float16"), graphs=len(four_steps.graphs), key=key)[1]
    assert again.client.rounded_to == "bfloat16", "the coarser of both"
    still = {name for name in sent if "running" in name or "num_" in name}
    assert changed.keys() == sent.keys()
    assert all(changed[name].dtype == sent[name].dtype for name in sent)
    assert all(np.array_equal(changed[name], sent[name]) for name in still)
    slopes = {name: mean_gradient(a, returned[name], local) for name, a in sent.items() if name not in still}
    for name, wanted in defense.apply(slopes, key=key).items():
        np.testing.assert_allclose(mean_gradient(sent[name], changed[name], local), wanted, atol=1e-6, err_msg=name)


def test_rounding_that_no_type_has_cannot_be_said_of_a_client(four_steps: Round) -> None:
    sent, returned = four_steps.sent, four_steps.returned
    kept = lambda *_: optax.identity()  # noqa: E731
    odd = Defense((Step(Kind("odd", kept, deviation=lambda *_: 0.0, rounding=0.01, plain=True)),))
    with pytest.raises(ValueError, match="'odd' rounds each entry by 1.0e-02 of it, as none of float16, bfloat16 does"):
        rounds(2).defended(sent, returned, odd, graphs=len(four_steps.graphs), key=jax.random.key(0))


def test_a_constant_and_a_frozen_part_are_not_defended() -> None:
    """Noise on GIN's fixed ``eps`` would change the model; one that is trained moved."""
    layers = [GIN("conv1"), "relu", "mean", Linear("out")]
    maps = {"conv1.nn.0": (4, 3), "conv1.nn.2": (4, 4), "out": (2, 4)}
    sent: Weights = {f"{name}.weight": np.ones(shape, np.float32) for name, shape in maps.items()}
    sent |= {f"{name}.bias": np.ones(shape[0], np.float32) for name, shape in maps.items()}
    sent["conv1.eps"] = np.zeros(1, np.float32)
    returned = {name: a if name == "conv1.eps" else a * np.float32(0.9) for name, a in sent.items()}
    one = Rounds(layers, "ce", LOCAL, client=Client(frozen=["out.bias"]))
    given = {"graphs": 1, "key": jax.random.key(0)}
    changed, _ = one.defended(sent, returned, parse("gaussian:1"), **given)
    assert {name for name in sent if np.array_equal(sent[name], changed[name])} == {"conv1.eps", "out.bias"}
    trained_eps = {**returned, "conv1.eps": np.full(1, 0.1, np.float32)}
    assert one.defended(sent, trained_eps, parse("gaussian:1"), **given)[0]["conv1.eps"] != 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "whole number of times, got 0"),
        ({"local": LocalTraining(RATE, steps=3)}, "3 steps are stated, .* follows from its graphs, the loader"),
        ({"epochs": 2}, r"went up by 1, and the description says 2 step\(s\) a round"),
        ({"graphs": 0}, "whole number of graphs from 1, got 0"),
        ({"client": Client(frozen=["none"])}, "'none' is not a parameter of this state"),
    ],
)
def test_mistakes_are_named(change: dict[str, Any], message: str, one_step: Round) -> None:
    graphs = change.pop("graphs", 4)
    with pytest.raises(ValueError, match=message):
        rounds(**change).observation(one_step.sent, one_step.returned, graphs=graphs)
