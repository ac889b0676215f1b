"""``jgleak check``: what a model and a protocol show by construction, without data."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from jgleak.cli import options as option
from jgleak.cli.status import mistakes


def check(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A deployed model (see `jgleak list`), an observation file, or file.py:name or package.module:name: "
            "a PyTorch Geometric module, a jgleak.GNN, an observation, or a function that makes one.",
            autocompletion=option.deployed,
        ),
    ],
    features: Annotated[
        str | None,
        option.data(
            help="The meaning of the input's columns, as for `jgleak invert`; by default molecules, in raw columns "
            "(molecules:tox21: normalised)."
        ),
    ] = None,
    nodes: Annotated[int | None, option.data(help="Nodes of a graph; 20 by default, a usual molecule.")] = None,
    loss: Annotated[str | None, option.model(help="What clients minimise.")] = None,
    dropout: Annotated[
        float | None, option.model(help="Share of entries masked after every activation in training.")
    ] = None,
    batch_size: Annotated[int | None, option.client(help="Graphs behind an update.")] = None,
    local_steps: Annotated[
        int | None, option.client(help="Local steps behind an update (fedavg); 0: one gradient.")
    ] = None,
    local_rate: Annotated[float | None, option.LOCAL_RATE] = None,
    local_momentum: Annotated[float | None, option.LOCAL_MOMENTUM] = None,
    local_weight_decay: Annotated[float | None, option.LOCAL_WEIGHT_DECAY] = None,
    local_loader: Annotated[int | None, option.LOCAL_LOADER] = None,
    local_optimiser: Annotated[
        str | None,
        option.client(
            help="Optimiser of the local steps: sgd, or adam (with weight decay: AdamW).",
            autocompletion=option.complete(("sgd", "adam")),
        ),
    ] = None,
    statistics: Annotated[
        bool | None,
        option.client("--statistics/--no-statistics", help="Clients return batch normalisation's running statistics."),
    ] = None,
    defense: Annotated[str | None, option.DEFENSE] = None,
    as_json: Annotated[bool, option.output("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Show what a model and a protocol leak by construction, what is open to attacks, and what is closed."""
    with mistakes():
        from jgleak.exposure.reading import read
        from jgleak.exposure.registry import exposure_of
        from jgleak.exposure.stated import Stated
        from jgleak.exposure.text import exposure_text
        from jgleak.interop.spaces import MOLECULES, feature_space

        given = None if features is None else feature_space(features)
        clients = {"loss": loss, "batch_size": batch_size, "nodes": nodes, "statistics": statistics, "defense": defense}
        local = {"rate": local_rate, "steps": local_steps, "momentum": local_momentum}
        local |= {"weight_decay": local_weight_decay, "loader": local_loader, "optimiser": local_optimiser}
        stated = Stated(_said(clients), _said(local), dropout)
        if local_steps is not None and local_steps < 0:
            raise ValueError(f"local_steps: expected 0 (one gradient) or more, got {local_steps}")
        deployment, title = read(model, given, feature_space(MOLECULES), stated)
        exposure = exposure_of(deployment)
        if as_json:
            typer.echo(json.dumps({"model": model, "title": title} | exposure.to_json()))
        else:
            typer.echo(exposure_text(exposure, f"{model}: {title}" if title else model))


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
