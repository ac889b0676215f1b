"""What an honest-but-curious server learns of a FedGNN user: history and ratings, against each defence."""

from jgleak.attacks.recommender.history import history as history
from jgleak.attacks.recommender.observation import Profile as Profile
from jgleak.attacks.recommender.observation import PublicKnowledge as PublicKnowledge
from jgleak.attacks.recommender.observation import Sighting as Sighting
from jgleak.attacks.recommender.ratings import Estimates as Estimates
from jgleak.attacks.recommender.ratings import estimate as estimate
from jgleak.attacks.recommender.recommender import STATISTICS as STATISTICS
from jgleak.attacks.recommender.recommender import attack as attack
from jgleak.attacks.recommender.recommender import real_scores as real_scores
from jgleak.attacks.recommender.statistics import Statistic as Statistic
