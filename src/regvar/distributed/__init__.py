"""Several processes, one answer: the rows of each batch are shared out, the sums are reduced.

Every process makes the same calls, as with `accelerate launch` or `torchrun`, and gets the answer
that one process would have computed. What is settled here:

**The module says whether work is shared.** Inside `DistributedDataParallel` (what
`accelerator.prepare` makes) or sharded by `fully_shard` (FSDP2), the processes of its group share
every pass. A bare module is one process's own affair: nothing is reduced, nothing can hang, so
that a single process may go on alone with `accelerator.unwrap_model(model)`.

**The loader is always read as one process would read it** (`loaders.whole`). A loader that
accelerate or a `DistributedSampler` has cut up is put together again from its own sampler, so the
rows that `even_batches=True` or the sampler repeats are not there, n is exact, and the order is
that of one process for the same seed. Any other loader must hold the same data in every process,
which is checked. Every process reads every batch and computes its own consecutive rows of it: N,
n, row numbers (hence the noise that belongs to rows) and each step of a stepwise solver are those
of one process. A batch that cannot be cut (fewer rows than processes; a user's own `forward` whose
rows cannot be told apart) is computed by the first processes alone.

**What is reduced**: every sum over data, once at the end of a pass, or of a step for `Finetune`,
`Stochastic` and `fit_map`, whose step is therefore exactly the one-process step on the same batch;
so learning rates and batch sizes mean what they mean in one process. Vectors of parameters are
replicated (or sharded by FSDP2), and the dot products that steer a solver are those of process 0.
`moments` needs no other process (except `pointwise`, which solves, and FSDP2, which gathers
weights).

**Names**: a module is taken out of its DDP wrapper, so parameters have the names of one process,
and its gradient hooks never fire. A displacement fitted by many processes serves one.

**FSDP2**: vectors are DTensors, sharded as the parameters. A gradient is read from a backward
pass, which is what gathers weights and sums over processes; J·v is by central differences (weights
that are gathered lose the tangents of forward mode).
"""

from regvar.distributed.loaders import whole
from regvar.distributed.processes import ALONE, Processes, unwrapped
from regvar.distributed.shards import full, gathered, is_sharded, local, placed, regathered

__all__ = [
    "ALONE",
    "Processes",
    "full",
    "gathered",
    "is_sharded",
    "local",
    "placed",
    "regathered",
    "unwrapped",
    "whole",
]
