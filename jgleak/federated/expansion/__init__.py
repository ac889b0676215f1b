"""FedGNN's expansion of the clients' graphs: anonymous neighbours, found by a third party among encrypted item ids."""

from jgleak.federated.expansion.client import ExpansionClient as ExpansionClient
from jgleak.federated.expansion.client import Neighbours as Neighbours
from jgleak.federated.expansion.expand import expand as expand
from jgleak.federated.expansion.server import ExpansionServer as ExpansionServer
from jgleak.federated.expansion.third_party import ThirdParty as ThirdParty
