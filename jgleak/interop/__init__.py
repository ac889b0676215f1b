"""Models from other frameworks: arrays by name and a forward pass become an ``Observation``.

A framework is imported only for a model of it. ``from_pyg`` takes a live PyTorch module (read by ``steps_of``),
``from_arrays`` any state and gradients by name (state dicts, flax parameter trees, NNX states, files), and
``from_weights`` the weights that a client returned.
"""

from jgleak.interop.arrays import by_name as by_name
from jgleak.interop.arrays import named as named
from jgleak.interop.arrays import read_arrays as read_arrays
from jgleak.interop.bridge import Client as Client
from jgleak.interop.bridge import from_arrays as from_arrays
from jgleak.interop.description import described as described
from jgleak.interop.example import Example as Example
from jgleak.interop.forward import steps_of as steps_of
from jgleak.interop.graphs import edge_arrays as edge_arrays
from jgleak.interop.graphs import edge_rows as edge_rows
from jgleak.interop.guard import Guard as Guard
from jgleak.interop.layers import GAT as GAT
from jgleak.interop.layers import GCN as GCN
from jgleak.interop.layers import GIN as GIN
from jgleak.interop.layers import GINE as GINE
from jgleak.interop.layers import LE as LE
from jgleak.interop.layers import SAGE as SAGE
from jgleak.interop.layers import BatchNorm as BatchNorm
from jgleak.interop.layers import Embeddings as Embeddings
from jgleak.interop.layers import GATv2 as GATv2
from jgleak.interop.layers import GraphConv as GraphConv
from jgleak.interop.layers import LayerNorm as LayerNorm
from jgleak.interop.layers import Linear as Linear
from jgleak.interop.layers import Residual as Residual
from jgleak.interop.module import from_pyg as from_pyg
from jgleak.interop.recorder import Recorder as Recorder
from jgleak.interop.rounds import Rounds as Rounds
from jgleak.interop.schema import read_schema as read_schema
from jgleak.interop.weights import from_weights as from_weights
from jgleak.interop.weights import rounding as rounding
