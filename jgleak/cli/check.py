"""``jgleak check``: what a model and a protocol show by construction, without data."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from jgleak.cli.status import mistakes


def check(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A deployed model (see `jgleak list`), an observation file, or file.py:name or package.module:name: "
            "a PyTorch Geometric module, a jgleak.GNN, or a function that makes one.",
        ),
    ],
    features: Annotated[
        str | None,
        typer.Option(help="What the input's columns mean, as for `jgleak invert`; molecules where nothing says it."),
    ] = None,
    loss: Annotated[str | None, typer.Option(help="What clients minimise.")] = None,
    batch: Annotated[int | None, typer.Option(help="Graphs behind an update.")] = None,
    nodes: Annotated[int | None, typer.Option(help="Nodes of a graph (20).")] = None,
    local_steps: Annotated[int | None, typer.Option(help="Local steps behind an update; 0: one gradient.")] = None,
    local_rate: Annotated[float | None, typer.Option(help="Their learning rate.")] = None,
    local_momentum: Annotated[float | None, typer.Option(help="Their momentum.")] = None,
    local_decay: Annotated[float | None, typer.Option(help="Their weight decay.")] = None,
    local_loader: Annotated[int | None, typer.Option(help="Graphs of a step; 0: all of the client's.")] = None,
    optimiser: Annotated[str | None, typer.Option(help="sgd, or adam (with a decay AdamW, decoupled).")] = None,
    dropout: Annotated[
        float | None, typer.Option(help="Share of entries masked after every activation in training.")
    ] = None,
    statistics: Annotated[
        bool | None,
        typer.Option("--statistics/--no-statistics", help="Running statistics of batch normalisation come back."),
    ] = None,
    defense: Annotated[str | None, typer.Option(help="What clients do before anything leaves (clip:1).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
) -> None:
    """Say what a model and a protocol show by construction: what leaks, what is open to attacks, and what is closed."""
    with mistakes():
        from jgleak.exposure.reading import read
        from jgleak.exposure.registry import exposure_of
        from jgleak.exposure.stated import Stated
        from jgleak.exposure.text import exposure_text
        from jgleak.interop.spaces import MOLECULES, feature_space

        given = None if features is None else feature_space(features)
        clients = {"loss": loss, "graphs": batch, "nodes": nodes, "statistics": statistics, "defense": defense}
        local = {"rate": local_rate, "steps": local_steps, "momentum": local_momentum}
        local |= {"weight_decay": local_decay, "loader": local_loader, "optimiser": optimiser}
        stated = Stated(_said(clients), _said(local), dropout)
        deployment, title = read(model, given, feature_space(MOLECULES), stated)
        exposure = exposure_of(deployment)
        if as_json:
            typer.echo(json.dumps({"model": model, "title": title} | exposure.to_json()))
        else:
            typer.echo(exposure_text(exposure, f"{model}: {title}" if title else model))


def _said(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
