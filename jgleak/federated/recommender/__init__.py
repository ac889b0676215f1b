"""FedGNN: federated recommendation on users' star graphs (Wu et al. 2022), and two factorisations without a graph."""

from jgleak.federated.recommender.bias import Biases as Biases
from jgleak.federated.recommender.bias import biases as biases
from jgleak.federated.recommender.clients import Client as Client
from jgleak.federated.recommender.clients import Clients as Clients
from jgleak.federated.recommender.clients import neighbour_users as neighbour_users
from jgleak.federated.recommender.evaluate import rmse as rmse
from jgleak.federated.recommender.factors import Factorised as Factorised
from jgleak.federated.recommender.factors import Factors as Factors
from jgleak.federated.recommender.factors import Settings as Settings
from jgleak.federated.recommender.factors import factor_epochs as factor_epochs
from jgleak.federated.recommender.factors import factorise as factorise
from jgleak.federated.recommender.factors import factors_rmse as factors_rmse
from jgleak.federated.recommender.fcf import fcf as fcf
from jgleak.federated.recommender.fedmf import fedmf as fedmf
from jgleak.federated.recommender.handout import encrypted as encrypted
from jgleak.federated.recommender.model import Parameters as Parameters
from jgleak.federated.recommender.model import Recommender as Recommender
from jgleak.federated.recommender.rounds import RecommenderPlan as RecommenderPlan
from jgleak.federated.recommender.rounds import TrainedRecommender as TrainedRecommender
from jgleak.federated.recommender.rounds import epochs as epochs
from jgleak.federated.recommender.rounds import train as train
from jgleak.federated.recommender.update import FEDGNN as FEDGNN
from jgleak.federated.recommender.update import OPEN as OPEN
from jgleak.federated.recommender.update import ClientUpdate as ClientUpdate
from jgleak.federated.recommender.update import Protection as Protection
from jgleak.federated.recommender.update import observe as observe
