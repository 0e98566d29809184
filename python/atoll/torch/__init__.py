"""Training of your own PyTorch module on the whole graph, over several processes.

    data = atoll.torch.shard("data/arxiv")            # the rows and edges of this process
    model = atoll.torch.distribute(model)             # its layers of PyG read rows of other processes
    loss = atoll.torch.loss(cross_entropy, model(data.x, data.edge_index), data.y, data.train_mask)
    loss.backward()
    atoll.torch.sum_gradients(model)                  # before optimizer.step()

Start the script with torchrun, mpirun or srun. docs/torch.md says more. Needs PyTorch, and PyTorch
Geometric for its layers.
"""

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise ImportError("atoll.torch needs PyTorch, which can't be imported here "
                      f"({error}): pip install torch torch_geometric") from error

from atoll.torch._distribute import distribute
from atoll.torch._exchange import HaloExchange
from atoll.torch._layers import DistributedBatchNorm, DistributedConv, DistributedDropout
from atoll.torch._losses import accuracy, loss, mean, sum_gradients
from atoll.torch._ranks import Ranks, start
from atoll.torch._shard import Shard, gather, shard

__all__ = ["DistributedBatchNorm", "DistributedConv", "DistributedDropout", "HaloExchange", "Ranks",
           "Shard", "accuracy", "distribute", "gather", "loss", "mean", "shard", "start",
           "sum_gradients"]
