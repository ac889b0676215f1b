"""Metrics: the only place where the truth and a reconstruction meet."""

from jgleak.metrics.alignment import align as align
from jgleak.metrics.anonymity import truth_in_set as truth_in_set
from jgleak.metrics.bootstrap import Interval as Interval
from jgleak.metrics.bootstrap import bootstrap as bootstrap
from jgleak.metrics.edges import EdgeScore as EdgeScore
from jgleak.metrics.edges import EdgeScores as EdgeScores
from jgleak.metrics.edges import edge_scores as edge_scores
from jgleak.metrics.exact import exact as exact
from jgleak.metrics.exact import isomorphism as isomorphism
from jgleak.metrics.features import FeatureScore as FeatureScore
from jgleak.metrics.features import FeatureScores as FeatureScores
from jgleak.metrics.features import feature_scores as feature_scores
from jgleak.metrics.gsm import Gsm as Gsm
from jgleak.metrics.gsm import gsm as gsm
from jgleak.metrics.matching import Matching as Matching
from jgleak.metrics.matching import aggregates as aggregates
from jgleak.metrics.matching import match as match
from jgleak.metrics.score import Score as Score
from jgleak.metrics.score import score as score
from jgleak.metrics.score import summarise as summarise
from jgleak.metrics.soft import SoftScore as SoftScore
from jgleak.metrics.soft import mean_scores as mean_scores
from jgleak.metrics.soft import soft_score as soft_score
from jgleak.metrics.soft import target_error as target_error
