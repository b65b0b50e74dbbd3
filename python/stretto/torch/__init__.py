"""Stretto as a backend of torch.distributed.

```python
import stretto.torch
torch.distributed.init_process_group("stretto")
```

DistributedDataParallel, FSDP, DeviceMesh and the rest of torch.distributed then work unchanged.
Stretto does not use PyTorch's headers, so it works with any PyTorch from 2.4 on. "Train on several
ranks" in the documentation is the guide.
"""

import torch.distributed as dist

from stretto._errors import CommError
from stretto.torch import _patches
from stretto.torch._attach import attach, attach_by_option
from stretto.torch._batch_norm import SyncBatchNorm, convert_sync_batchnorm
from stretto.torch._jobs import GroupOptions
from stretto.torch._patches import replace_backend
from stretto.torch._process_group import create, statistics
from stretto.torch._segments import GradientTimes, measure_link, plan_buckets

__all__ = ["CommError", "GradientTimes", "GroupOptions", "SyncBatchNorm", "attach",
           "convert_sync_batchnorm", "measure_link", "plan_buckets", "replace_backend",
           "statistics"]

dist.Backend.register_backend("stretto", create, extended_api=True, devices=["cpu", "cuda"])
attach_by_option()
_patches.apply()
