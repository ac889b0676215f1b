"""A job in NVFlare's own simulator, with its processes and messages, recorded; run where nvflare is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jgleak.attacks.facts.registry import facts
from jgleak.datasets import MOLECULE_SPACE
from jgleak.federated import load as load_observation
from jgleak.federated.observation import flatten
from tests.interop.conftest import UNCOMPARED
from tests.interop.federation import LAYERS, initial, step

pytest.importorskip("nvflare", reason="nvflare is not installed: pip install 'jgleak[nvflare]'")

pytestmark = UNCOMPARED

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_simulated_job_is_recorded_as_its_sites_trained(tmp_path: Path) -> None:
    """Two sites, two rounds: each file holds the step that the site made from the weights of its round; those of the
    second round are the mean of what came back, which no file of the first one holds."""
    from jgleak.federated import LocalTraining
    from jgleak.interop import Rounds
    from tests.interop import nvflare_app as app

    rounds = tmp_path / "rounds"
    job = app.job(tmp_path / "job", rounds=2)
    simulator = Path(sys.executable).with_name("nvflare"), "simulator"
    command = [*simulator, job, "-w", tmp_path / "work", "-n", "2", "-t", "2"]
    environment = os.environ | {app.FOLDER: str(rounds), "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(list(map(str, command)), env=environment, cwd=tmp_path, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    names = [f"round-{number:03d}-client-site-{site}.safetensors" for number in (0, 1) for site in (1, 2)]
    assert sorted(path.name for path in rounds.iterdir()) == names
    read, weights = Rounds(LAYERS, "bce", LocalTraining(app.RATE, loader=8)), initial(MOLECULE_SPACE, app.WIDTH)
    for number in (0, 1):
        returned = [step(weights, app.graphs(f"site-{site}"), MOLECULE_SPACE, app.RATE) for site in (1, 2)]
        for site, own in enumerate(returned, start=1):
            seen, _ = load_observation(rounds / names[2 * number + site - 1])
            wanted = flatten(read.observation(weights, own, graphs=1).update)
            for name, leaf in flatten(seen.update).items():
                np.testing.assert_allclose(leaf, wanted[name], atol=1e-4)
            (truth,) = app.graphs(f"site-{site}")
            assert facts(seen, MOLECULE_SPACE).found["label"].value == truth.y
        weights = {k: np.mean([own[k] for own in returned], axis=0).astype(weights[k].dtype) for k in weights}
