"""The guide's worked examples are real: they run, they come closer, and they stay short."""

from __future__ import annotations

import re
from pathlib import Path

import jax
import pytest

from jgleak import Knowledge, fedsgd, standard
from jgleak.datasets import load
from jgleak.gnn import Pooled

GUIDE = Path(__file__).parents[1] / "CONTRIBUTING.md"


def blocks() -> dict[str, str]:
    return dict(re.findall(r"<!-- test: (\w+) -->\n```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL))


@pytest.mark.long
def test_the_worked_example_runs() -> None:
    code = blocks()
    assert sum(code[part].count("\n") for part in ("recipe", "run")) < 80
    names: dict = {}
    exec(compile(code["recipe"] + code["run"], str(GUIDE), "exec"), names)
    traced = names["DECIDED"].with_options({"restarts": 2}).many  # as the guide runs it, so that nothing compiles again
    again = traced(names["seen"], names["known"], keys=names["keys"], budget=names["Budget"](), trace=True)
    for found, one in zip(names["found"], again, strict=True):
        assert found.info["matching_loss"] < min(trace[0] for trace in one.info["trace"])


def test_the_nearest_public_graph_is_the_client_s_own_where_it_is_public() -> None:
    names: dict = {}
    exec(compile(blocks()["other"], str(GUIDE), "exec"), names)
    data = load("embedded", graphs=4, max_nodes=8)
    model = standard(data.space.width, "gcn", Pooled(), layers=1, hidden=16)
    seen = fedsgd(model, model.initial(key=jax.random.key(0)), [data.graphs[2]], data.space, loss="bce")
    found = names["NEAREST"](seen, Knowledge(data.space, auxiliary=tuple(data.graphs)), key=jax.random.key(1))
    assert found.best is not None and found.best.isomorphic(data.graphs[2]) and found.best.y == data.graphs[2].y
    assert found.gradient_distance < 1e-5 and found.stop == "done"
