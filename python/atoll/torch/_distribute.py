"""A whole module, distributed."""

import torch
import torch_geometric.nn as pyg

from atoll._errors import InputError
from atoll import _program
from atoll.torch import _shard
from atoll.torch._layers import DistributedBatchNorm, DistributedConv, DistributedDropout

# Modules that look at nodes which no edge connects.
REFUSED = {
    "DirGNNConv": "it turns edges round, and the shard has those into local nodes only",
    "GPSConv": "it attends to all nodes",
    "GraphNorm": "it normalises over nodes", "PairNorm": "it normalises over nodes",
    "InstanceNorm": "it normalises over nodes", "DiffGroupNorm": "it normalises over nodes",
    "MeanSubtractionNorm": "it normalises over nodes", "GraphSizeNorm": "it counts all nodes",
    "TopKPooling": "it ranks all nodes", "SAGPooling": "it ranks all nodes",
    "ASAPooling": "it ranks all nodes", "PANPooling": "it ranks all nodes",
    "EdgePooling": "it ranks all edges", "ClusterPooling": "it ranks all edges",
    "MemPooling": "it looks at all nodes", "HeteroBatchNorm": "it normalises over nodes",
    "HeteroLayerNorm": "it normalises over nodes",
}


def distribute(model, exchange=None, *, reads=None):
    """Makes a module work on the rows of all processes, in place, and gives all of them the parameters
    of rank 0. Collective.

    * Every MessagePassing layer is wrapped in DistributedConv.
    * Every torch.nn.BatchNorm1d becomes a DistributedBatchNorm.
    * Every torch.nn.Dropout becomes a DistributedDropout where the package has its compiled part, but
      inside of convolutions, whose rows may be edges. (torch.nn.functional.dropout stays.)

    model: on rows [n, F] of the shard. exchange: None: that of the last shard. reads: of layers of
    unknown classes, see DistributedConv; or a dictionary with the classes as keys. Returns the
    module; its parameters are the same objects, so an optimizer may be made before or after. Raises
    InputError for a layer that can't be distributed.
    """
    exchange = exchange if exchange is not None else _shard.current().exchange
    shard, ranks = exchange.shard, exchange.ranks
    dropouts = 0
    done = {}  # by id of a module, which may have several names: the module and what it became

    def replaced(module, inside_conv):
        found = done.get((id(module), inside_conv))
        if found is None:
            found = done[id(module), inside_conv] = module, made_of(module, inside_conv)
        return found[1]

    def made_of(module, inside_conv):
        nonlocal dropouts
        if isinstance(module, (DistributedConv, DistributedBatchNorm, DistributedDropout)):
            return module
        reason = REFUSED.get(type(module).__name__)
        if reason is None and isinstance(module, pyg.LayerNorm) and module.mode == "graph":
            reason = "with mode='graph' it normalises over nodes; allowed is mode='node'"
        if isinstance(module, pyg.Aggregation) and not inside_conv:
            reason = "outside of a layer it gathers over all rows"
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and \
                type(module) is not torch.nn.BatchNorm1d:
            reason = "it normalises over rows; allowed is torch.nn.BatchNorm1d"
        if reason is not None:
            raise InputError(f"{type(module).__name__}: it can't be distributed, because {reason}")
        is_conv = isinstance(module, pyg.MessagePassing)
        for name, child in list(module._modules.items()):
            if child is None:
                continue
            mine = replaced(child, inside_conv or is_conv)
            if mine is not child:
                setattr(module, name, mine)
        if is_conv and not inside_conv:
            way = reads.get(type(module)) if isinstance(reads, dict) else reads
            known = way if DistributedConv.knows(module) is None else None
            return DistributedConv(module, exchange, reads=known)
        if type(module) is torch.nn.BatchNorm1d:
            return DistributedBatchNorm.of(module, ranks)
        if type(module) is torch.nn.Dropout and not inside_conv and _program._engine is not None:
            dropouts += 1
            return DistributedDropout(module.p, number=dropouts - 1, shard=shard)
        return module

    if ranks.size > 1:
        lazy = [name for name, parameter in model.named_parameters()
                if torch.nn.parameter.is_lazy(parameter)]
        if lazy:
            raise InputError(f"{lazy[0]}: it has no shape yet; give the layer its number of input "
                             "columns, or call the model once before distribute()")
    model = replaced(model, False)
    with torch.no_grad():
        for values in [*model.parameters(), *model.buffers()]:
            ranks.broadcast(values)
    return model
