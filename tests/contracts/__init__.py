"""The contract suite: every estimator on every network."""
