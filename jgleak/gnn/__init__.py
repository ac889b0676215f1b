"""Graph neural networks under attack, as pure functions of their parameters: parts, and models composed of them."""

from jgleak.gnn.activation import ACTIVATIONS as ACTIVATIONS
from jgleak.gnn.convolution import Convolution as Convolution
from jgleak.gnn.gat import GATConv as GATConv
from jgleak.gnn.gcn import GCNConv as GCNConv
from jgleak.gnn.gin import GINConv as GINConv
from jgleak.gnn.layer import Layer as Layer
from jgleak.gnn.mlp import MLP as MLP
from jgleak.gnn.model import GNN as GNN
from jgleak.gnn.model import Params as Params
from jgleak.gnn.readout import DotProduct as DotProduct
from jgleak.gnn.readout import Flattened as Flattened
from jgleak.gnn.readout import NodeMLP as NodeMLP
from jgleak.gnn.readout import NodeScores as NodeScores
from jgleak.gnn.readout import Pooled as Pooled
from jgleak.gnn.readout import Readout as Readout
from jgleak.gnn.registry import CONVOLUTIONS as CONVOLUTIONS
from jgleak.gnn.registry import READOUTS as READOUTS
from jgleak.gnn.sage import SAGEConv as SAGEConv
from jgleak.gnn.standard import standard as standard
