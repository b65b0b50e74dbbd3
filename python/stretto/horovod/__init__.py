"""Horovod's PyTorch interface on Stretto's engine.

  import stretto.horovod as hvd        # was: import horovod.torch as hvd

Ranks may submit named tensors in different orders: they agree on an order by combining ready bits,
with no coordinator. A tensor that some ranks do not submit is named in the log after a minute
(STRETTO_STALL_WARNING seconds), with the ranks that lack it.
"""

from stretto.horovod.compression import Compression
from stretto.horovod.operations import (
  Average,
  Max,
  Min,
  Product,
  Sum,
  allgather,
  allgather_async,
  allreduce,
  allreduce_,
  allreduce_async,
  allreduce_async_,
  alltoall,
  alltoall_async,
  barrier,
  broadcast,
  broadcast_,
  broadcast_async,
  broadcast_async_,
  grouped_allreduce,
  grouped_allreduce_,
  grouped_allreduce_async,
  grouped_allreduce_async_,
  join,
  poll,
  synchronize,
)
from stretto.horovod.optimizer import (
  DistributedOptimizer,
  allgather_object,
  broadcast_object,
  broadcast_optimizer_state,
  broadcast_parameters,
)
from stretto.horovod.state import (
  cross_rank,
  cross_size,
  init,
  is_homogeneous,
  is_initialized,
  local_rank,
  local_size,
  rank,
  shutdown,
  size,
)

__all__ = [
  "Average", "Compression", "DistributedOptimizer", "Max", "Min", "Product", "Sum", "allgather",
  "allgather_async", "allgather_object", "allreduce", "allreduce_", "allreduce_async",
  "allreduce_async_", "alltoall", "alltoall_async", "barrier", "broadcast", "broadcast_",
  "broadcast_async", "broadcast_async_", "broadcast_object", "broadcast_optimizer_state",
  "broadcast_parameters", "cross_rank", "cross_size", "grouped_allreduce", "grouped_allreduce_",
  "grouped_allreduce_async", "grouped_allreduce_async_", "init", "is_homogeneous",
  "is_initialized", "join", "local_rank", "local_size", "poll", "rank", "shutdown", "size",
  "synchronize",
]
