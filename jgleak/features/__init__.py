"""The public feature space of nodes, and those of atoms that other libraries compute."""

from jgleak.features.atoms import ogb_atoms as ogb_atoms
from jgleak.features.atoms import pyg_atoms as pyg_atoms
from jgleak.features.bonds import ogb_bonds as ogb_bonds
from jgleak.features.bonds import pyg_bonds as pyg_bonds
from jgleak.features.feature import Feature as Feature
from jgleak.features.feature import Kind as Kind
from jgleak.features.feature import binary as binary
from jgleak.features.feature import number as number
from jgleak.features.feature import onehot as onehot
from jgleak.features.feature import real as real
from jgleak.features.space import FeatureSpace as FeatureSpace
from jgleak.features.space import combinations as combinations
