"""Likelihoods log p(y | f): value, output curvature Λ = −∇²_f log p (Eq. 5), noise Λ^½ ε."""

from regvar.likelihoods.bernoulli import Bernoulli
from regvar.likelihoods.categorical import Categorical
from regvar.likelihoods.custom import Custom
from regvar.likelihoods.gaussian import Gaussian
from regvar.likelihoods.protocol import LabelLikelihood, Likelihood

__all__ = ["Bernoulli", "Categorical", "Custom", "Gaussian", "LabelLikelihood", "Likelihood"]
