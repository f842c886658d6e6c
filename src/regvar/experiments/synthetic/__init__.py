"""Appendix C of the paper: synthetic regressions, and what each method makes of them."""

from regvar.experiments.synthetic.config import Config
from regvar.experiments.synthetic.study import experiment, reduced

__all__ = ["Config", "experiment", "reduced"]
