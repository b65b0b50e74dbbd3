"""Horovod's interface for Keras on Stretto's engine, for Keras 3 with any of its backends.

```python
import stretto.keras as hvd               # was: import horovod.keras as hvd

hvd.init()
optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.001 * hvd.size()))
model.compile(optimizer=optimizer, loss=...)
model.fit(..., callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
```
"""

from stretto._named_job import (
  Compression,
  init,
  is_initialized,
  local_rank,
  local_size,
  rank,
  shutdown,
  size,
)
from stretto.keras import callbacks
from stretto.keras._collectives import (
  Average,
  Max,
  Min,
  Product,
  Sum,
  allgather,
  allreduce,
  broadcast,
  broadcast_variables,
)
from stretto.keras._optimizer import DistributedOptimizer, load_model

__all__ = ["Average", "Compression", "DistributedOptimizer", "Max", "Min", "Product", "Sum",
           "allgather", "allreduce", "broadcast", "broadcast_variables", "callbacks", "init",
           "is_initialized", "load_model", "local_rank", "local_size", "rank", "shutdown", "size"]
