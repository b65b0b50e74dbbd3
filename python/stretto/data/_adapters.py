"""The loader in the shapes that other libraries expect."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from stretto._checks import expected
from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.data._loader import ImageLoader


class WholeBatch(tuple[Any, ...]):
  """A batch as an element of a dataset, of which no larger batch is to be made."""


def refuse_batches(batch: Any, *, collate_fn_map: Any = None) -> Any:
  """What a DataLoader calls to make a batch of batches."""
  raise UnsupportedError("torch_dataset: its elements are batches already, and a DataLoader with a "
                         "batch_size would make batches of batches: pass batch_size=None")


def torch_dataset(loader: ImageLoader) -> Any:
  """A torch IterableDataset of whole batches, for code that asks for one (Lightning, Accelerate).

  Give it to `DataLoader(dataset, batch_size=None, num_workers=0)`; other numbers are an error: the
  loader makes whole batches, has threads of its own, and its rank already has its own samples.

  Args:
    loader: the loader that makes the batches; `framework="torch"` unless arrays are to be NumPy's.

  Returns:
    The dataset. It passes `state_dict` and `load_state_dict` on to the loader. It has no
    `set_epoch`: every pass is an epoch, and a number that a library counts from 0 after each start
    would undo a resume.
  """
  if not isinstance(loader, ImageLoader):
    raise expected("torch_dataset: loader", "an ImageLoader", loader)
  from torch.utils.data import IterableDataset, get_worker_info
  from torch.utils.data._utils.collate import default_collate_fn_map

  default_collate_fn_map[WholeBatch] = refuse_batches

  class Batches(IterableDataset):  # type: ignore[type-arg]
    def __iter__(self) -> Iterator[tuple[Any, ...]]:
      if get_worker_info() is not None:
        raise UnsupportedError("torch_dataset: the loader has threads of its own, which processes "
                               "of a DataLoader cannot share: pass num_workers=0")
      return map(WholeBatch, loader)

    def __len__(self) -> int:
      return len(loader)

    state_dict = staticmethod(loader.state_dict)
    load_state_dict = staticmethod(loader.load_state_dict)

  return Batches()


class DictIterator:
  """Batches as NVIDIA DALI's iterators for PyTorch give them: lists of one dictionary.

  Args:
    loader: the loader that makes the batches.
    names: the keys of what a batch has: images and labels, or what `targets` asks for, such as
      ("data", "boxes", "masks"). One more gets what is real of a batch with last="pad".
  """

  def __init__(self, loader: ImageLoader, names: tuple[str, ...] = ("data", "label")) -> None:
    if not isinstance(loader, ImageLoader):
      raise expected("DictIterator: loader", "an ImageLoader", loader)
    self._loader = loader
    self._names = names
    self._batches: Iterator[tuple[Any, ...]] | None = None
    self._taken = False  # a batch of this epoch

  def __iter__(self) -> DictIterator:
    if self._batches is None:
      self._batches = iter(self._loader)
    return self

  def __next__(self) -> list[dict[str, Any]]:
    if self._batches is None:
      self._batches = iter(self._loader)
    try:
      batch = next(self._batches)
    except StopIteration:
      self._batches, self._taken = None, False  # the next one begins the next epoch
      raise
    self._taken = True
    least = len(batch) - self._loader._padded
    if not least <= len(self._names) <= len(batch):
      raise InvalidArgumentError(f"DictIterator: names: expected {least}, as many as a batch of "
                                 f"this loader has parts, got {len(self._names)}: {self._names!r}")
    return [dict(zip(self._names, batch))]

  def __len__(self) -> int:
    return len(self._loader)

  def reset(self) -> None:
    """Begins the next epoch if one was left in the middle; elsewhere it does nothing."""
    if self._batches is not None and self._taken:
      self._batches, self._taken = iter(self._loader), False


# Batches whose copies may be under way: more of them would only take memory.
MOST_COPIED = 2


def to_device(batches: Iterable[Any], device: Any) -> Iterator[Any]:
  """Batches with their torch tensors on a device.

  To a GPU each is copied in a stream of its own while the GPU works on the one before, if its
  memory is pinned (`ImageLoader(..., framework="torch", pin_memory=True)`), and is held until its
  copy is done. No batch is taken before it is asked for, so `state_dict` is where it would be
  without.

  Args:
    batches: a loader, one pass over it, or other tuples, lists and dictionaries of tensors.
    device: where to, as "cuda" or "cuda:1".

  Returns:
    An iterator over them.
  """
  import torch

  cuda: Any = torch.cuda
  target = torch.device(device)
  if target.type != "cuda":
    for batch in batches:
      yield _moved(batch, lambda tensor: tensor.to(target))
    return
  stream = cuda.Stream(target)
  copied: deque[tuple[Any, Any]] = deque()  # what says that it is done, and the batch
  try:
    for batch in batches:
      with cuda.stream(stream):
        moved = _moved(batch, lambda tensor: tensor.to(target, non_blocking=True))
        done = cuda.Event()
        done.record(stream)
      copied.append((done, batch))
      del batch
      current = cuda.current_stream(target)
      current.wait_event(done)
      # Memory that was taken in one stream is not to be taken again while the other one uses it.
      _moved(moved, partial(_used_in, current))
      yield moved
      del moved
      while copied and (len(copied) > MOST_COPIED or copied[0][0].query()):
        copied[0][0].synchronize()
        copied.popleft()
  finally:
    for done, _batch in copied:
      done.synchronize()


def _used_in(stream: Any, tensor: Any) -> None:
  tensor.record_stream(stream)


def _moved(part: Any, move: Callable[[Any], Any]) -> Any:
  """Of a batch, with what `move` makes of its tensors."""
  if isinstance(part, dict):
    return {name: _moved(value, move) for name, value in part.items()}
  if isinstance(part, (list, tuple)):
    return type(part)([_moved(value, move) for value in part])
  return move(part) if hasattr(part, "record_stream") else part


def follow(loader: ImageLoader, optimizer: Any) -> dict[str, float]:
  """Sets learning rate and momentum of a torch optimizer as the loader's phases say, for the batch
  that was given last. Call it in each step.

  Momentum is the group's "momentum", or the first of its "betas". A group with an "lr_scale" gets
  this multiple of the learning rate.

  Args:
    loader: whose phases, and which of them is current.
    optimizer: anything with `param_groups`.

  Returns:
    What was set, as `ImageLoader.schedule` returns it.
  """
  values = loader.schedule()
  for group in optimizer.param_groups:
    if "lr" in values:
      group["lr"] = values["lr"] * group.get("lr_scale", 1.0)
    if "momentum" in values and "betas" in group:
      group["betas"] = (values["momentum"], *group["betas"][1:])
    elif "momentum" in values:
      group["momentum"] = values["momentum"]
  return values
