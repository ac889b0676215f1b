"""Data sets: private graphs with what is public about them."""

from jgleak.datasets.catalogue import load as load
from jgleak.datasets.catalogue import names as names
from jgleak.datasets.catalogue import tasks as tasks
from jgleak.datasets.dataset import Dataset as Dataset
from jgleak.datasets.dataset import LoadReport as LoadReport
from jgleak.datasets.dataset import Task as Task
from jgleak.datasets.embedded import embedded as embedded
from jgleak.datasets.locate import Remote as Remote
from jgleak.datasets.locate import Source as Source
from jgleak.datasets.locate import locate as locate
from jgleak.datasets.moleculenet import moleculenet as moleculenet
from jgleak.datasets.molecules import MOLECULE_SPACE as MOLECULE_SPACE
from jgleak.datasets.molecules import MoleculeError as MoleculeError
from jgleak.datasets.molecules import molecule_graph as molecule_graph
from jgleak.datasets.molecules import with_bonds as with_bonds
from jgleak.datasets.musae import musae as musae
from jgleak.datasets.network import Network as Network
from jgleak.datasets.planetoid import citeseer as citeseer
from jgleak.datasets.pokec import pokec as pokec
from jgleak.datasets.recsys import ratings as ratings
from jgleak.datasets.sampling import clients as clients
from jgleak.datasets.synthetic import Topology as Topology
from jgleak.datasets.synthetic import synthetic as synthetic
from jgleak.datasets.synthetic_ratings import synthetic_ratings as synthetic_ratings
from jgleak.datasets.tudataset import tudataset as tudataset
from jgleak.names.datasets import RATING_SETS as RATING_SETS
