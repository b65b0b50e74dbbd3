"""Collectives on JAX arrays, outside and inside jit.

```python
import stretto.jax as st
st.init()                                  # in a process that `stretto run` started
params = st.broadcast(params)
...
grads = st.average_gradients(grads)        # a pytree; inside the jitted step, or after it
```

Inside jit they are ordered io_callbacks, which run in the order of the program. Arrays of an
accelerator are copied to the host and back.
"""

from stretto._named_job import init, is_initialized, local_rank, local_size, rank, shutdown, size
from stretto.jax._collectives import (
  all_gather,
  all_reduce,
  average_gradients,
  barrier,
  broadcast,
)

__all__ = ["all_gather", "all_reduce", "average_gradients", "barrier", "broadcast", "init",
           "is_initialized", "local_rank", "local_size", "rank", "shutdown", "size"]
