"""A user's own data to a calibrated, fine-tuned network, and from there to predictions.

What `regvar finetune` and `regvar predict` do, as functions: `finetune` fills a directory with all
that `predict` needs. Needs the extras `hf` and `bench`.
"""

from regvar.finetuning.predicting import Predicted, predict
from regvar.finetuning.running import Finetuned, finetune
from regvar.finetuning.settings import Settings

__all__ = ["Finetuned", "Predicted", "Settings", "finetune", "predict"]
