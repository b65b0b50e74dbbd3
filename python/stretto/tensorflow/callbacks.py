"""Callbacks for `model.fit()`, as `horovod.tensorflow.keras.callbacks` has them: those of
`stretto.keras.callbacks`.

```python
from stretto.tensorflow import callbacks      # was: from horovod.tensorflow.keras import callbacks
```

`fit()` itself averages no gradients: `stretto.keras.DistributedOptimizer` does, or the model's
`train_step` with a `DistributedGradientTape`.
"""

from stretto.keras.callbacks import (
  BroadcastGlobalVariablesCallback,
  CommitStateCallback,
  LearningRateScheduleCallback,
  LearningRateWarmupCallback,
  MetricAverageCallback,
  UpdateBatchStateCallback,
  UpdateEpochStateCallback,
)

__all__ = ["BroadcastGlobalVariablesCallback", "CommitStateCallback",
           "LearningRateScheduleCallback", "LearningRateWarmupCallback", "MetricAverageCallback",
           "UpdateBatchStateCallback", "UpdateEpochStateCallback"]
