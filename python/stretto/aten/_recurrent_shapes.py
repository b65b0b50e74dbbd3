"""Recurrent operators as wholes while a module is traced.

PyTorch knows the shapes of their results only by unrolling them over their length, which so cannot
stay open, and takes a while where it is large.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import is_fake

_NAMES = ("gru", "lstm", "rnn_relu", "rnn_tanh")
_KEYS = (torch._C.DispatchKey.CompositeImplicitAutograd, torch._C.DispatchKey.Autograd)

_lock = threading.Lock()
_users = 0  # how many threads trace now
_here = threading.local()
_saved: list[tuple[dict[Any, Any], Any, Any]] = []  # where what stood instead


@contextmanager
def recurrent_as_wholes() -> Iterator[None]:
  """While this lasts, this thread traces them so; others as before."""
  global _users
  with _lock:
    if _users == 0:
      _replace()
    _users += 1
  _here.depth = getattr(_here, "depth", 0) + 1
  try:
    yield
  finally:
    _here.depth -= 1
    with _lock:
      _users -= 1
      if _users == 0:
        _restore()


def _operators() -> list[Any]:
  return [getattr(torch.ops.aten, name).input for name in _NAMES]


def _replace() -> None:
  for operator in _operators():
    for table, key in [(decomposition_table, operator), *((operator.py_kernels, k) for k in _KEYS)]:
      original = table.get(key)
      if callable(original):
        _saved.append((table, key, original))
        table[key] = _whole_or(original)
    operator._dispatch_cache.clear()


def _restore() -> None:
  while _saved:
    table, key, original = _saved.pop()
    table[key] = original
  for operator in _operators():
    operator._dispatch_cache.clear()


def _whole_or(original: Callable[..., Any]) -> Callable[..., Any]:
  """Results without content where only their shapes are asked for here."""
  def kernel(x: torch.Tensor, states: torch.Tensor | Sequence[torch.Tensor], weights: Any,
             has_biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool,
             batch_first: bool) -> Any:
    if not getattr(_here, "depth", 0) or not is_fake(x):
      return original(x, states, weights, has_biases, layers, dropout, train, bidirectional,
                      batch_first)
    parts = [states] if isinstance(states, torch.Tensor) else states
    width = parts[0].shape[2] * (2 if bidirectional else 1)
    return x.new_empty((*x.shape[:2], width)), *(torch.empty_like(part) for part in parts)
  return kernel
