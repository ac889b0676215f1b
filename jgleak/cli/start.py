"""What ``jgleak`` prints without a command: where to begin."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

START = """\
jgleak: what does your federated GNN leak?

Attack simulated clients, on molecules that come with jgleak:
  jgleak attack
Attack one update of your own model:
  jgleak invert one.safetensors --features molecules
Check what a model will leak, before there are data:
  jgleak check my_code.py:make_model
Try attacks, defences and models in one audit, and read its report:
  jgleak audit audit.toml --out leak
  jgleak report leak

jgleak list names attacks, defences, data sets and models. jgleak --help has all commands, jgleak COMMAND --help its
options.\
"""


class Start(TyperGroup):
    """The commands; without a command it prints where to begin."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            typer.echo(START)
            ctx.exit()
        return super().parse_args(ctx, args)
