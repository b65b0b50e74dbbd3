"""Stretto as a backend of torch.distributed.

```python
import stretto.torch
torch.distributed.init_process_group("stretto")
```

DistributedDataParallel, FSDP, DeviceMesh and the rest of torch.distributed then work unchanged.
Stretto does not use PyTorch's headers, so it works with any PyTorch from 2.4 on. "Train on several
ranks" in the documentation is the guide.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from stretto._errors import CommError
from stretto.torch import _callbacks, _dynamo, _patches
from stretto.torch._attach import attach, attach_by_option
from stretto.torch._batch_norm import SyncBatchNorm, convert_sync_batchnorm
from stretto.torch._jobs import GroupOptions
from stretto.torch._patches import replace_backend
from stretto.torch._placed import Placed, place
from stretto.torch._probe import probe
from stretto.torch._process_group import create, statistics
from stretto.torch._segments import GradientTimes, measure_link, plan_buckets
from stretto.torch._share_sampler import ShareSampler
from stretto.torch._shares import Shares
from stretto.torch._split import split_batch

if TYPE_CHECKING:
  from stretto.aten._explain import Explanation

__all__ = ["CommError", "GradientTimes", "GroupOptions", "Placed", "ShareSampler", "Shares",
           "SyncBatchNorm", "attach", "convert_sync_batchnorm", "explain", "measure_link", "place",
           "plan_buckets", "probe", "replace_backend", "split_batch", "statistics"]


def explain(module: Callable[..., Any], inputs: Any, *more: Any,
            kwargs: Mapping[str, Any] | None = None,
            options: Mapping[str, Any] | None = None, runs: int = 30) -> "Explanation":
  """Says what `torch.compile(module, backend="stretto")` runs where, why, and at what cost.

  Args:
    module: a module or function, in evaluation mode.
    inputs: what it is called with: a tensor, or a tuple of positional arguments.
    *more: further inputs, called in order, such as other shapes: they show what is made again.
    kwargs: keyword arguments of every call.
    options: as for `torch.compile`: `level`, `accuracy`, `threads`, `tuning`, `tuning_cache` and
      `verify`.
    runs: how often each time is measured; medians count.

  Returns:
    An `Explanation`: printed it is a table; `as_dict()` gives plain data. It has the programs that
    PyTorch traced, the parts of each that are models, the operators that PyTorch runs with the
    reasons, and the bytes and microseconds at each border.

  Raises:
    InvalidArgumentError: an option is unknown, or `runs` is below 1.
  """
  from stretto.aten._explain import explain as explained

  return explained(module, inputs, *more, kwargs=kwargs, options=options, runs=runs)


dist.Backend.register_backend("stretto", create, extended_api=True, devices=["cpu", "cuda"])
attach_by_option()
_callbacks.apply()
_patches.apply()
_dynamo.keep_out()
