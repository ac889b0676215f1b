"""Transformations of what leaves the client, and what they promise."""

from jgleak.defenses.defense import Defense as Defense
from jgleak.defenses.defense import Kind as Kind
from jgleak.defenses.defense import Step as Step
from jgleak.defenses.registry import KINDS as KINDS
from jgleak.defenses.registry import parse as parse
