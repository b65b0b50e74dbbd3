"""Horovod's PyTorch interface on Stretto's engine.

```python
import stretto.horovod as hvd        # was: import horovod.torch as hvd
```

Ranks may submit named tensors in different orders: they agree on an order by combining ready bits,
with no coordinator. If some ranks have not submitted a tensor after a minute
(STRETTO_STALL_WARNING seconds), the log names the tensor and these ranks.
"""

from stretto._errors import CommError as HorovodInternalError
from stretto.horovod import elastic
from stretto.horovod._builds import (
  ccl_built,
  check_extension,
  cuda_built,
  ddl_built,
  gloo_built,
  gloo_enabled,
  mpi_built,
  mpi_enabled,
  mpi_threads_supported,
  nccl_built,
  rocm_built,
)
from stretto.horovod._compression import Compression
from stretto.horovod._handles import poll, synchronize
from stretto.horovod._moves import (
  allgather,
  allgather_async,
  alltoall,
  alltoall_async,
  barrier,
  broadcast,
  broadcast_,
  broadcast_async,
  broadcast_async_,
  grouped_allgather,
  grouped_allgather_async,
  join,
)
from stretto.horovod._objects import (
  allgather_object,
  broadcast_object,
  broadcast_object_fn,
  broadcast_optimizer_state,
  broadcast_parameters,
)
from stretto.horovod._optimizer import DistributedOptimizer
from stretto.horovod._process_sets import (
  ProcessSet,
  add_process_set,
  global_process_set,
  process_set_ids,
  remove_process_set,
)
from stretto.horovod._reducescatter import (
  grouped_reducescatter,
  grouped_reducescatter_async,
  reducescatter,
  reducescatter_async,
)
from stretto.horovod._reductions import (
  Adasum,
  Average,
  Max,
  Min,
  Product,
  Sum,
  allreduce,
  allreduce_,
  allreduce_async,
  allreduce_async_,
  grouped_allreduce,
  grouped_allreduce_,
  grouped_allreduce_async,
  grouped_allreduce_async_,
  sparse_allreduce_async,
)
from stretto.horovod._state import (
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
from stretto.horovod._timeline import start_timeline, stop_timeline
from stretto.torch._batch_norm import SyncBatchNorm

__all__ = [
  "Adasum", "Average", "Compression", "DistributedOptimizer",
  "HorovodInternalError", "Max", "Min", "ProcessSet", "Product",
  "Sum", "SyncBatchNorm", "add_process_set", "allgather", "allgather_async", "allgather_object",
  "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "alltoall_async",
  "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "broadcast_object",
  "broadcast_object_fn", "broadcast_optimizer_state", "broadcast_parameters", "ccl_built",
  "check_extension", "cross_rank", "cross_size", "cuda_built", "ddl_built", "elastic",
  "global_process_set", "gloo_built", "gloo_enabled", "grouped_allgather",
  "grouped_allgather_async", "grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async",
  "grouped_allreduce_async_", "grouped_reducescatter", "grouped_reducescatter_async", "init",
  "is_homogeneous", "is_initialized", "join", "local_rank", "local_size", "mpi_built",
  "mpi_enabled", "mpi_threads_supported", "nccl_built", "poll", "process_set_ids", "rank",
  "reducescatter", "reducescatter_async", "remove_process_set", "rocm_built", "shutdown", "size",
  "sparse_allreduce_async", "start_timeline", "stop_timeline", "synchronize",
]
