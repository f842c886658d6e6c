"""RegVar where transformers are: a Trainer, LoRA adapters, tokens, sequences and generated text.

Needs the extra `hf`. `RegVarTrainer` fits the MAP and the regularized networks; `regvar_loss` is
the same objective for a Trainer of one's own. What either gives is an estimator like any other:
`regvar.audit`, `calibrate`, `regvar.save` take it.
"""

from regvar.huggingface.adapters import load_adapters, save_adapters
from regvar.huggingface.generation import Generation, generate_with_uncertainty
from regvar.huggingface.loss import count, regvar_loss
from regvar.huggingface.readings import Scores, margin, sequence_scores, token_scores
from regvar.huggingface.refits import AmortizedRefit, SampledRefit
from regvar.huggingface.trainer import RegVarTrainer

__all__ = [
    "AmortizedRefit",
    "Generation",
    "RegVarTrainer",
    "SampledRefit",
    "Scores",
    "count",
    "generate_with_uncertainty",
    "load_adapters",
    "margin",
    "regvar_loss",
    "save_adapters",
    "sequence_scores",
    "token_scores",
]
