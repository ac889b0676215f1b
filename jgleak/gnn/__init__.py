"""Graph neural networks under attack, as pure functions."""

from jgleak.gnn.activation import ACTIVATIONS as ACTIVATIONS
from jgleak.gnn.model import CONVOLUTIONS as CONVOLUTIONS
from jgleak.gnn.model import GNN as GNN
from jgleak.gnn.model import READOUTS as READOUTS
from jgleak.gnn.model import Params as Params
