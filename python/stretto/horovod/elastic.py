"""Training that goes on when ranks are lost or new ones come.

```python
@hvd.elastic.run
def train(state):
  while state.step < steps:
    ...
    optimizer.step()
    state.step += 1
    state.commit()

state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0)
train(state)
```

Start it with `stretto run --elastic MIN:MAX train.py`. After a rank is lost the others form the job
again with new ranks and another size, go back to the last commit, and call the function again. New
ranks are taken in at commits.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Iterable, Sequence

import torch

from stretto._checks import expected
from stretto._errors import CommError, InvalidArgumentError
from stretto.horovod import _epochs, _optimizer, _state
from stretto.horovod._moves import broadcast
from stretto.horovod._objects import broadcast_object, broadcast_parameters

__all__ = ["HostsUpdatedInterrupt", "ObjectState", "State", "TorchState", "run"]

LOG = logging.getLogger("stretto")


class HostsUpdatedInterrupt(RuntimeError):  # noqa: N818  Horovod's name
  """New ranks wait to be taken in. `run` handles it.

  Args:
    skip_sync: no rank needs the state of another.
  """

  def __init__(self, skip_sync: bool = False):
    super().__init__("new ranks wait to be taken in")
    self.skip_sync = skip_sync


class State:
  """What the ranks have to agree on. Subclasses have `save`, `restore` and `sync`."""

  def __init__(self) -> None:
    self._reset_callbacks: list[Callable[[], None]] = []

  def register_reset_callbacks(self, callbacks: Sequence[Callable[[], None]]) -> None:
    """Adds functions to call when the job has been formed again, with another size or other ranks.

    Args:
      callbacks: functions without arguments, for example one that adapts the learning rate to
        `hvd.size()`.
    """
    found = list(callbacks) if isinstance(callbacks, Iterable) else [None]
    if not all(map(callable, found)):
      raise expected("register_reset_callbacks: callbacks", "a list of functions", callbacks)
    self._reset_callbacks += found

  def on_reset(self) -> None:
    """Called by `run` when the job has been formed again."""
    self.reset()
    for callback in self._reset_callbacks:
      callback()

  def commit(self) -> None:
    """Saves the state, and takes new ranks in if some wait. All ranks call it at the same points.

    Raises:
      HostsUpdatedInterrupt: new ranks wait; `run` handles it.
      CommError: a rank is lost; `run` handles it.
    """
    self.save()
    self.check_host_updates()

  def check_host_updates(self) -> None:
    """Takes new ranks in if some wait, without saving. All ranks call it at the same points.

    Raises:
      HostsUpdatedInterrupt: new ranks wait; `run` handles it.
      CommError: a rank is lost; `run` handles it.
    """
    epochs = _epochs.epochs()
    if epochs is None:
      return
    found = torch.tensor([int(_state.rank() == 0 and epochs.newcomers())], device="cpu")
    if int(broadcast(found, 0, "elastic.newcomers")):
      raise HostsUpdatedInterrupt

  def reset(self) -> None:
    """For subclasses: called when the job has been formed again, before the callbacks."""

  def save(self) -> None:
    """Keeps the present values in memory, for `restore`."""
    raise NotImplementedError

  def restore(self) -> None:
    """Goes back to the values of the last `save`."""
    raise NotImplementedError

  def sync(self) -> None:
    """Gives every rank the values of rank 0, and saves them."""
    raise NotImplementedError


class ObjectState(State):
  """Python objects as attributes.

  Args:
    **values: names and first values of the attributes; anything that torch.save takes.
  """

  def __init__(self, **values) -> None:
    super().__init__()
    self._names = list(values)
    self._saved: dict = {}
    for name, value in values.items():
      setattr(self, name, value)
    self.save()

  def _values(self) -> dict:
    return {name: getattr(self, name) for name in self._names}

  def save(self) -> None:
    """Keeps copies of the attributes in memory."""
    self._saved = copy.deepcopy(self._values())

  def restore(self) -> None:
    """Gives the attributes the values of the last `save`."""
    for name, value in copy.deepcopy(self._saved).items():
      setattr(self, name, value)

  def sync(self) -> None:
    """Gives every rank the attributes of rank 0, and saves them."""
    for name, value in broadcast_object(self._values(), 0, "elastic.state").items():
      setattr(self, name, value)
    self.save()


class TorchState(ObjectState):
  """A model, an optimizer, and anything else as attributes. A value with `state_dict()` and
  `load_state_dict()`, such as a schedule of learning rates, is kept by these.

  Args:
    model: the model.
    optimizer: the optimizer, which may be a `DistributedOptimizer`.
    **values: as in `ObjectState`.

  Examples:
    ```python
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, epoch=0, batch=0)
    ```
  """

  def __init__(self, model: torch.nn.Module | None = None,
               optimizer: torch.optim.Optimizer | None = None, **values) -> None:
    for name, value in (("model", model), ("optimizer", optimizer)):
      if value is not None and not (hasattr(value, "state_dict")
                                    and hasattr(value, "load_state_dict")):
        raise expected(f"TorchState: {name}", "an object with state_dict() and load_state_dict()",
                       value)
    given = {"model": model, "optimizer": optimizer, **values}
    self._keepers = {name: value for name, value in given.items()
                     if hasattr(value, "state_dict") and hasattr(value, "load_state_dict")}
    self._kept: dict[str, dict] = {}
    for name, value in self._keepers.items():
      setattr(self, name, value)
    super().__init__(**{name: value for name, value in given.items()
                        if name not in self._keepers and value is not None})

  def save(self) -> None:
    """Keeps copies of everything in memory."""
    self._kept = {name: copy.deepcopy(keeper.state_dict())
                  for name, keeper in self._keepers.items()}
    super().save()

  def restore(self) -> None:
    """Gives everything the values of the last `save`."""
    for name, keeper in self._keepers.items():
      keeper.load_state_dict(copy.deepcopy(self._kept[name]))
    super().restore()

  def sync(self) -> None:
    """Gives every rank what rank 0 has, and saves it."""
    for name, keeper in self._keepers.items():
      if isinstance(keeper, torch.nn.Module):
        broadcast_parameters(keeper.state_dict(), 0, name_prefix=f"elastic.{name}.")
      else:
        content = broadcast_object(keeper.state_dict(), 0, f"elastic.{name}")
        if _state.rank() != 0:
          keeper.load_state_dict(content)
    super().sync()


def run(func: Callable) -> Callable:
  """Makes a training function go on when ranks are lost or new ones come.

  Before each call of the function all ranks get the state of rank 0, the lowest rank of those that
  were there before.

  Args:
    func: the function; its first argument is a `State`. It has to begin where the state says.

  Returns:
    The function to call.

  Raises:
    CommError: a rank is lost, and the job is not elastic, fewer than MIN ranks are left, or the
      store is lost.

  Examples:
    ```python
    @hvd.elastic.run
    def train(state):
      ...
    ```
  """

  if not callable(func):
    raise expected("run: func", "a function whose first argument is a State", func)

  @functools.wraps(func)
  def wrapper(state: State, *args, **options):
    if not isinstance(state, State):
      raise expected("the first argument of a function of elastic.run", "a State", state)
    skip_sync = False
    while True:
      try:
        if not skip_sync:
          state.sync()
        if (epochs := _epochs.epochs()) is not None:
          epochs.has_state()
        return func(state, *args, **options)
      except CommError as error:
        if _epochs.epochs() is None:
          raise
        LOG.warning("rank %d of %d goes back to the last commit: %s", _state.rank(),
                    _state.size(), error)
        state.restore()
        skip_sync = False
        failed = True
      except HostsUpdatedInterrupt as update:
        skip_sync, failed = update.skip_sync, False
      form_again(state, failed)

  return wrapper


def form_again(state: State, failed: bool) -> None:
  """Leaves the epoch and joins the next one, until one comes about."""
  if not _state.job().owns_group:
    raise InvalidArgumentError("elastic: the script made the process group itself; let hvd.init() "
                               "make it, which can make another one")
  while True:
    try:
      if failed:
        _state.abandon()
      else:
        _state.shutdown()
    except CommError:  # a rank is lost while all ranks leave
      _state.abandon()
    try:
      _state.init()
      state.on_reset()
      _optimizer.rejoin()
      return
    except _epochs.StoreLost:
      raise
    except CommError as error:
      LOG.warning("forming the job again: %s", error)
      failed = True
