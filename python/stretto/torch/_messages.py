"""Calls of modules between ranks: arguments and results as messages of the process group.

A message is its length, its description in JSON, and its tensors. Whoever sends does not wait.
"""

from __future__ import annotations

import json
import threading
from typing import Any

import torch
import torch.distributed as dist

from stretto._errors import InvalidArgumentError

# Tags of torch.distributed: requests have one, and answers to requests that are no calls. The
# answer to a call has its own, which a later call uses again: ranks keep a count for every tag.
REQUEST = 1 << 29
ANSWER = REQUEST + 1
ANSWERS = 1 << 16

DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128)}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def name_of(tensor: torch.Tensor, what: str) -> str:
  if tensor.dtype not in NAMES:
    raise InvalidArgumentError(f"{what}: tensors of type {tensor.dtype} cannot be sent to another "
                               f"rank; convert it to one of {', '.join(DTYPES)}")
  return NAMES[tensor.dtype]


def flatten(value: Any, tensors: list[torch.Tensor], what: str) -> Any:
  """`value` as JSON, with its tensors in the list and their numbers in their place."""
  if isinstance(value, torch.Tensor):
    name_of(value, what)
    tensors.append(value)
    return {"tensor": len(tensors) - 1}
  if value is None or isinstance(value, (bool, int, float, str)):
    return value
  if isinstance(value, (list, tuple)):
    kind = "list" if isinstance(value, list) else "tuple"
    return {kind: [flatten(one, tensors, what) for one in value]}
  if isinstance(value, dict) and all(isinstance(key, str) for key in value):
    return {"dict": {key: flatten(one, tensors, what) for key, one in value.items()}}
  raise InvalidArgumentError(f"{what}: a {type(value).__name__} cannot be sent to another rank; "
                             "give tensors, numbers, strings, and lists, tuples or dictionaries of "
                             "them")


def unflatten(form: Any, tensors: list[torch.Tensor]) -> Any:
  if not isinstance(form, dict):
    return form
  [(kind, content)] = form.items()
  if kind == "tensor":
    return tensors[content]
  if kind == "dict":
    return {key: unflatten(one, tensors) for key, one in content.items()}
  return (list if kind == "list" else tuple)(unflatten(one, tensors) for one in content)


class Mail:
  """Messages of one process group. Methods may be called from any thread."""

  def __init__(self, group: dist.ProcessGroup | None) -> None:
    self._group = group
    self._lock = threading.Lock()
    self._under_way: list[tuple[Any, torch.Tensor]] = []  # sends, and the memory that they read

  def send(self, rank: int, tag: int, content: dict[str, Any],
           tensors: list[torch.Tensor]) -> None:
    """To a rank of the job. Keeps the tensors until they are sent; nobody may change them."""
    plain = [tensor.detach().cpu().contiguous() for tensor in tensors]
    names = [name_of(tensor, content.get("name", "a result")) for tensor in plain]
    head = json.dumps(content | {"tensors": [[name, list(t.shape)]
                                             for name, t in zip(names, plain)]})
    data = torch.frombuffer(bytearray(head.encode()), dtype=torch.uint8)
    with self._lock:  # the parts of a message follow each other
      for part in (torch.tensor([data.numel()]), data, *plain):
        if part.numel():
          self._under_way.append((dist.isend(part, rank, self._group, tag), part))
      self._under_way = [(work, part) for work, part in self._under_way if not done(work)]

  def receive(self, rank: int, tag: int) -> tuple[dict[str, Any], list[torch.Tensor]]:
    length = torch.empty(1, dtype=torch.int64)
    dist.recv(length, rank, self._group, tag)
    data = torch.empty(int(length), dtype=torch.uint8)
    dist.recv(data, rank, self._group, tag)
    content = json.loads(bytes(data.tolist()))
    tensors = [torch.empty(shape, dtype=DTYPES[name]) for name, shape in content.pop("tensors")]
    for tensor in tensors:
      if tensor.numel():
        dist.recv(tensor, rank, self._group, tag)
    return content, tensors

  def flush(self) -> None:
    """Waits until everything is sent."""
    with self._lock:
      for work, _ in self._under_way:
        work.wait()
      self._under_way = []


def done(work: Any) -> bool:
  if not work.is_completed():
    return False
  work.wait()  # raises what went wrong
  return True
