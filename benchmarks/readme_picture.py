"""The picture in the README: four drugs beside what the census makes of one gradient each, bond types included."""

from __future__ import annotations

from pathlib import Path

import jax
import typer
from rdkit.Chem.Draw import rdMolDraw2D

from jgleak import Budget, Graph, Knowledge, fedsgd, get_attack
from jgleak.datasets import embedded
from jgleak.draw import molecule
from jgleak.gnn import GNN, GINEConv, Layer, LinearEncoder, NodeMLP
from jgleak.metrics.exact import isomorphism

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "reconstruction.png"
DRUGS = ("morphine", "penicillin G", "simvastatin", "methotrexate")
"""Chosen for their looks among those that are recovered; how often that happens is what the benchmarks say."""
SEED, WIDTH = 0, 300
PANEL = (380, 300)
"""Width and height of one molecule in pixels."""


def main() -> None:
    """Attack each drug as its own client, and draw truth and reconstruction side by side, two drugs a line."""
    dataset = embedded(bonds=True)
    named = {g.name.split(":")[0]: g for g in dataset.graphs}
    layers = Layer(GINEConv(WIDTH, bias=True)), Layer(GINEConv(WIDTH, bias=True), "identity")
    model = GNN(dataset.space.width, layers, NodeMLP(see_input=False), LinearEncoder(WIDTH))
    params = model.initial(key=jax.random.key(SEED))
    census, knowledge, budget = get_attack("census"), Knowledge(space=dataset.space), Budget(seconds=300.0)
    molecules, legends = [], []
    for i, drug in enumerate(DRUGS):
        truth = named[drug]
        observation = fedsgd(model, params, [truth], dataset.space, loss="bce")
        found = census(observation, knowledge, key=jax.random.key(i), budget=budget).best
        if found is None:
            raise SystemExit(f"{drug}: nothing was reconstructed; choose another molecule")
        graph, how = _laid_out_like(truth, found)
        print(f"{drug}: {truth.n} atoms, {how}")
        molecules += [molecule(truth, dataset.space), molecule(graph, dataset.space)]
        legends += [f"{drug} ({truth.n} atoms)", f"from its gradient: {how}"]
    PICTURE.write_bytes(_grid(molecules, legends))


def _laid_out_like(truth: Graph, found: Graph) -> tuple[Graph, str]:
    order = isomorphism(truth, found)
    return (found, "not exact") if order is None else (found.permute(order), "exact")


def _grid(molecules: list, legends: list[str]) -> bytes:
    width, height = PANEL
    drawer = rdMolDraw2D.MolDraw2DCairo(4 * width, -(-len(molecules) // 4) * height, width, height)
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False
    options.legendFontSize = 20
    drawer.DrawMolecules(molecules, legends=legends)
    drawer.FinishDrawing()
    return drawer.GetDrawingText()


if __name__ == "__main__":
    typer.run(main)
