"""The picture in the README: four drugs above what the census makes of their mean gradient, bond types included."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jax
import typer
from rdkit.Chem import Mol
from rdkit.Chem.Draw import rdMolDraw2D

from jgleak import Budget, Graph, Knowledge, fedsgd, get_attack
from jgleak.datasets import embedded
from jgleak.draw import molecule
from jgleak.gnn import GNN, MLP, GINEConv, Layer, LinearEncoder, Pooled
from jgleak.metrics.exact import isomorphism

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "reconstruction.png"
DRUGS = ("morphine", "penicillin G", "simvastatin", "methotrexate")
"""Chosen for their looks among those that are recovered; how often that happens is what the benchmarks say."""
SEED, WIDTH = 0, 300
PANEL = (380, 300)
"""Width and height of one molecule in pixels."""


def main() -> None:
    """Attack the drugs as one client, and draw the private graphs above what came back."""
    dataset = embedded(bonds=True)
    named = {graph.name.split(":")[0]: graph for graph in dataset.graphs}
    truths = [named[drug] for drug in DRUGS]
    layers = Layer(GINEConv(WIDTH, bias=True)), Layer(GINEConv(WIDTH, bias=True))
    model = GNN(dataset.space.width, layers, Pooled("mean", MLP((WIDTH, 2))), LinearEncoder(WIDTH))
    seen = fedsgd(model, model.initial(key=jax.random.key(SEED)), truths, dataset.space, loss="ce")
    known, budget = Knowledge(dataset.space), Budget(time_limit=300.0)
    found = get_attack("census")(seen, known, key=jax.random.key(1), budget=budget)
    for certificate in sorted({repr(member.certificate) for member in found.members}):
        print(certificate)
    back = [member.best for member in found.members if member.best is not None]
    shown = [
        (_laid_out_like(truth, back), f"{drug} ({truth.n} atoms)") for truth, drug in zip(truths, DRUGS, strict=True)
    ]
    legends = [f"private: {drug}" for _, drug in shown] + [
        "rebuilt: exact" if graph else "not rebuilt" for graph, _ in shown
    ]
    above = [molecule(truth, dataset.space) for truth in truths]
    PICTURE.write_bytes(
        _grid(above + [molecule(graph, dataset.space) if graph else Mol() for graph, _ in shown], legends)
    )


def _laid_out_like(truth: Graph, back: Sequence[Graph]) -> Graph | None:
    """The one of ``back`` that is the truth, with its nodes in the truth's order."""
    for graph in back:
        order = isomorphism(truth, graph)
        if order is not None:
            return graph.permute(order)
    return None


def _grid(molecules: Sequence[Mol], legends: list[str]) -> bytes:
    width, height = PANEL
    columns = len(DRUGS)
    drawer = rdMolDraw2D.MolDraw2DCairo(columns * width, -(-len(molecules) // columns) * height, width, height)
    options = drawer.drawOptions()
    options.prepareMolsBeforeDrawing = False
    options.legendFontSize = 20
    drawer.DrawMolecules(molecules, legends=legends)
    drawer.FinishDrawing()
    return drawer.GetDrawingText()


if __name__ == "__main__":
    typer.run(main)
