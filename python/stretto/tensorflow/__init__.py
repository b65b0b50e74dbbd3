"""The part of Horovod's TensorFlow interface that training loops with a GradientTape need, on
Stretto's engine.

```python
import stretto.tensorflow as hvd           # was: import horovod.tensorflow as hvd
```

Works eagerly and inside tf.function. Tensors of a GPU are copied to the host and back.
"""

from stretto._named_job import init, is_initialized, local_rank, local_size, rank, shutdown, size
from stretto.tensorflow._collectives import (
  Average,
  Max,
  Min,
  Product,
  Sum,
  allgather,
  allreduce,
  broadcast,
  broadcast_variables,
  grouped_allreduce,
)
from stretto.tensorflow._tape import Compression, DistributedGradientTape

__all__ = ["Average", "Compression", "DistributedGradientTape", "Max", "Min", "Product", "Sum",
           "allgather", "allreduce", "broadcast", "broadcast_variables", "grouped_allreduce",
           "init", "is_initialized", "local_rank", "local_size", "rank", "shutdown", "size"]
