"""What an honest-but-curious server learns of a FedGNN user: history and ratings, against each defence."""

from jgleak.attacks.recommender.attack import STATISTICS as STATISTICS
from jgleak.attacks.recommender.attack import attack as attack
from jgleak.attacks.recommender.attack import real_scores as real_scores
from jgleak.attacks.recommender.history import history as history
from jgleak.attacks.recommender.public import Profile as Profile
from jgleak.attacks.recommender.public import Public as Public
from jgleak.attacks.recommender.public import Sighting as Sighting
from jgleak.attacks.recommender.ratings import Estimates as Estimates
from jgleak.attacks.recommender.ratings import estimate as estimate
from jgleak.attacks.recommender.statistics import Statistic as Statistic
