"""What leaves the client: losses, updates, observations."""

from jgleak.federated.client import fedsgd as fedsgd
from jgleak.federated.client import gradients as gradients
from jgleak.federated.fedavg import fedavg as fedavg
from jgleak.federated.knowledge import Knowledge as Knowledge
from jgleak.federated.local_training import LocalTraining as LocalTraining
from jgleak.federated.loss import LOSSES as LOSSES
from jgleak.federated.loss import Loss as Loss
from jgleak.federated.observation import Observation as Observation
from jgleak.federated.observation import load as load
from jgleak.federated.observation import save as save
