"""NVFlare's own filter chain, recorded and guarded; run where nvflare is installed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jgleak.attacks.attack import Attack, Reconstruction
from jgleak.attacks.certificate import Certificate
from jgleak.attacks.registry import ATTACKS
from jgleak.federated import Knowledge
from jgleak.federated import load as load_observation
from jgleak.federated.observation import flatten
from jgleak.interop import Recorder
from jgleak.interop.guard import Guard
from tests.interop.conftest import UNCOMPARED
from tests.interop.test_guard import GRAPH, RETURNED, ROUNDS, SENT, SPACE
from tests.interop.test_guide import RECORDING, run

nvflare: Any = pytest.importorskip("nvflare", reason="nvflare is not installed: pip install 'jgleak[nvflare]'")

pytestmark = UNCOMPARED


def told(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> Guard:
    """A guard whose attack proves sets of these sizes, one a call."""
    left = iter(sizes)

    def run(observation: Any, knowledge: Any, *, key: Any, budget: Any) -> Reconstruction:
        return Reconstruction((GRAPH,), 0.0, "match", certificate=Certificate("k_graphs", next(left), 9, False, 0.0))

    monkeypatch.setitem(ATTACKS, "census", Attack("told", run))
    return Guard(ROUNDS, Knowledge(SPACE), otherwise="gaussian:1")


def passed(filters: list[Any], data: Any, kind: str, *, task: bool = True, number: int | None = 4) -> Any:
    """What NVFlare sends, where a client got ``SENT`` and its task's result, of a round, passes the filters."""
    from nvflare.apis.dxo import DXO, DataKind, from_shareable  # pyright: ignore[reportMissingImports]
    from nvflare.apis.event_type import EventType  # pyright: ignore[reportMissingImports]
    from nvflare.apis.fl_constant import FLContextKey  # pyright: ignore[reportMissingImports]
    from nvflare.apis.fl_context import FLContext  # pyright: ignore[reportMissingImports]
    from nvflare.app_common.app_constant import AppConstants  # pyright: ignore[reportMissingImports]

    context = FLContext()
    weights = {name: array.copy() for name, array in SENT.items()}
    if task:
        context.set_prop(FLContextKey.TASK_DATA, DXO(DataKind.WEIGHTS, data=weights).to_shareable())
    for one in filters:
        one.handle_event(EventType.AFTER_TASK_DATA_FILTER, context)
    for array in weights.values():  # a client may train in place
        array += 1.0
    result = DXO(kind, data=copy.deepcopy(data)).to_shareable()
    if number is not None:
        result.set_header(AppConstants.CURRENT_ROUND, number)
    for one in filters:
        result = one.process(result, context)
    return from_shareable(result).data


DIFFERENCE = {name: array - SENT[name] for name, array in RETURNED.items()}


@pytest.mark.parametrize(("kind", "data"), [("WEIGHTS", RETURNED), ("WEIGHT_DIFF", DIFFERENCE)])
def test_weights_and_differences_are_recorded_and_pass(kind: str, data: Any, tmp_path: Path) -> None:
    from jgleak.interop.nvflare import RecordingFilter

    left = passed([RecordingFilter(Recorder(ROUNDS, tmp_path, SPACE), graphs=1)], data, kind)
    for name, array in data.items():
        np.testing.assert_array_equal(left[name], array)
    (path,) = tmp_path.iterdir()
    assert path.name.startswith("round-004-client-")
    wanted = flatten(ROUNDS.observation(SENT, RETURNED, graphs=1).update)
    for name, leaf in flatten(load_observation(path)[0].update).items():
        np.testing.assert_allclose(leaf, wanted[name], atol=1e-5)


def test_the_pages_filter_records(tmp_path: Path) -> None:
    names = run("nvflare", RECORDING, recorder=Recorder(ROUNDS, tmp_path, SPACE))
    passed([names["Recorded"](1)], RETURNED, "WEIGHTS")
    assert len(list(tmp_path.iterdir())) == 1


def test_a_recorder_sees_what_earlier_filters_let_pass(tmp_path: Path) -> None:
    """Variables that NVFlare's ``ExcludeVars`` takes out are parts that the update says nothing of."""
    from nvflare.app_common.filters.exclude_vars import ExcludeVars  # pyright: ignore[reportMissingImports]

    from jgleak.interop.nvflare import RecordingFilter

    filters = [ExcludeVars("conv1.nn.2"), RecordingFilter(Recorder(ROUNDS, tmp_path, SPACE), graphs=1)]
    left = passed(filters, DIFFERENCE, "WEIGHT_DIFF")
    assert not any(name.startswith("conv1.nn.2") for name in left)
    (path,) = tmp_path.iterdir()
    assert load_observation(path)[0].model.frozen == ("layers_0/conv/out_kernel", "layers_0/conv/bias")


def test_what_is_certified_is_blocked_noised_or_let_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from nvflare.apis.filter import ContentBlockedException  # pyright: ignore[reportMissingImports]

    from jgleak.interop.nvflare import GuardingFilter

    left = passed([GuardingFilter(told(monkeypatch, 2), graphs=1)], DIFFERENCE, "WEIGHT_DIFF")
    assert all(np.array_equal(left[name], array) for name, array in DIFFERENCE.items())
    for kind, data in (("WEIGHT_DIFF", DIFFERENCE), ("WEIGHTS", RETURNED)):
        noised = passed([GuardingFilter(told(monkeypatch, 1, 2), graphs=1)], data, kind)
        gaps = np.concatenate([(noised[name] - array).ravel() / 0.1 for name, array in data.items()])
        assert np.std(gaps) == pytest.approx(1.0, rel=0.4)
    with pytest.raises(ContentBlockedException, match="^the client's guard withheld the update$"):
        passed([GuardingFilter(told(monkeypatch, 1, 1), graphs=1)], DIFFERENCE, "WEIGHT_DIFF")


def test_nothing_leaves_where_nobody_knows_what_was_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A recorder warns, and the training goes on."""
    from jgleak.interop.nvflare import GuardingFilter, RecordingFilter

    with pytest.raises(ValueError, match="no weights came with the task"):
        passed([GuardingFilter(told(monkeypatch, 2), graphs=1)], DIFFERENCE, "WEIGHT_DIFF", task=False)
    recorder = RecordingFilter(Recorder(ROUNDS, tmp_path, SPACE), graphs=1)
    with pytest.warns(UserWarning, match="a round of client .* is not recorded: .*no weights came"):
        left = passed([recorder], DIFFERENCE, "WEIGHT_DIFF", task=False)
    assert left.keys() == DIFFERENCE.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"secret": np.ones(3, np.float32)}, r"'secret' has shape \(3,\), and was not sent"),
        ({"out.bias": np.ones((1, 1), np.float32)}, r"'out.bias' has shape \(1, 1\), and was sent as \(1,\)"),
    ],
)
def test_nothing_leaves_that_the_guard_did_not_read(
    change: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jgleak.interop.nvflare import GuardingFilter

    with pytest.raises(ValueError, match=message):
        passed([GuardingFilter(told(monkeypatch, 2), graphs=1)], {**DIFFERENCE, **change}, "WEIGHT_DIFF")
    with pytest.raises(ValueError, match="."):
        passed([GuardingFilter(told(monkeypatch, 2), graphs=1)], {**RETURNED, **change}, "WEIGHTS")


@pytest.mark.parametrize("data", [{"out.bias": np.ones((3, 3), np.float32)}, {"out.bias": "text"}, {"secret": [1.0]}])
def test_no_result_stops_a_training_that_is_recorded(data: Any, tmp_path: Path) -> None:
    from jgleak.interop.nvflare import RecordingFilter

    recorder = RecordingFilter(Recorder(ROUNDS, tmp_path, SPACE), graphs=1)
    with pytest.warns(UserWarning, match="a round of client .* is not recorded"):
        assert passed([recorder], data, "WEIGHT_DIFF").keys() == data.keys()
    assert not list(tmp_path.iterdir())


def test_results_that_do_not_say_their_round_have_a_file_each(tmp_path: Path) -> None:
    from jgleak.interop.nvflare import RecordingFilter

    recorder = RecordingFilter(Recorder(ROUNDS, tmp_path, SPACE), graphs=1)
    for number in (None, 0, None):
        passed([recorder], RETURNED, "WEIGHTS", number=number)
    assert [path.name[:9] for path in sorted(tmp_path.iterdir())] == ["round-000", "round-001", "round-002"]


def test_no_other_kind_of_result_leaves_past_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics alone: NVFlare's filters let pass what they do not know."""
    from nvflare.apis.filter import ContentBlockedException  # pyright: ignore[reportMissingImports]
    from nvflare.apis.fl_context import FLContext  # pyright: ignore[reportMissingImports]
    from nvflare.apis.shareable import Shareable  # pyright: ignore[reportMissingImports]

    from jgleak.interop.nvflare import GuardingFilter

    guard = GuardingFilter(told(monkeypatch), graphs=1)
    for kind in ("APP_DEFINED", "FL_MODEL", "STATISTICS"):
        with pytest.raises(ContentBlockedException, match=kind):
            passed([guard], RETURNED, kind)
    assert passed([guard], {"auc": 0.5}, "METRICS") == {"auc": 0.5}
    result = Shareable()
    result["weights"] = RETURNED
    with pytest.raises(ContentBlockedException, match="no DXO"):
        guard.process(result, FLContext())
