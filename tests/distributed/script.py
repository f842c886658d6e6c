"""A user's script, unchanged from one process to many: `accelerate launch ... script.py OUT`."""

import sys

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, IterableDataset
from transformers import BertConfig, BertForSequenceClassification

import regvar

out, way = sys.argv[1:]
settings = {
    "default": {},
    "split": {"split_batches": True},
    "seedable": {"use_seedable_sampler": True},
    "dispatched": {"dispatch_batches": True},
}[way]
accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**settings))
set_seed(0)
config = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=8,
    num_labels=3,
)
model = BertForSequenceClassification(config)
tokens = torch.randint(20, (14, 5))
masks = torch.ones(14, 5, dtype=torch.long)
masks[::2, 4] = 0
rows = [
    {"input_ids": t, "attention_mask": m, "labels": t.sum() % 3}
    for t, m in zip(tokens, masks, strict=True)
]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(rows)


loader = (
    DataLoader(Stream(), batch_size=4)
    if way == "dispatched"
    else DataLoader(rows, batch_size=4, shuffle=True)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
model.eval()
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

joint = regvar.LogJoint(
    model, loader, likelihood=regvar.Categorical(), prior=regvar.GaussianPrior(precision=5.0)
)
x = {"input_ids": tokens[:3], "attention_mask": masks[:3]}
answers = {"counts": torch.tensor([joint.size, joint.num_batches], dtype=torch.float64)}
answers["trained"] = torch.cat([p.detach().flatten() for p in joint.parameters.values()])
refit = regvar.Finetune(lam=0.5, epochs=2, lr=1e-3)
tight = regvar.ConjugateGradient(regvar.GGN(), tolerance=1e-6)
answers["sampled"] = regvar.sampled(joint, 2, tight, seed=1).moments(x).variance
answers["refit"] = regvar.sampled(joint, 2, refit, seed=1).moments(x).variance
uq = regvar.amortized(joint, probes=[x], solver=tight)
answers["amortized"] = uq.moments(x).variance
answers["pointwise"] = (
    regvar.pointwise(joint, tight).moments({k: v[:1] for k, v in x.items()}).variance
)
answers["names"] = torch.tensor([len(k) for k in uq.displacement.delta])
torch.save(answers, f"{out}.{accelerator.process_index}")
accelerator.end_training()
