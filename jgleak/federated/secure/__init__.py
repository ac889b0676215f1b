"""Sums of gradients that the server computes without reading them: FedMF's additively homomorphic aggregation."""

from jgleak.federated.secure.aggregator import Aggregator as Aggregator
from jgleak.federated.secure.client import GradientClient as GradientClient
from jgleak.federated.secure.encoding import FixedPoint as FixedPoint
from jgleak.federated.secure.keys import Keys as Keys
from jgleak.federated.secure.keys import generate as generate
from jgleak.federated.secure.summed import summed as summed
