"""Contexts, which compile operators and keep them, and the operators of one."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stretto import _stretto
from stretto._errors import InvalidArgumentError
from stretto._paths import path_text


class Operator(_stretto.BoundOperator):
  """One operator of ONNX, to be called.

  It is made by `stretto.ops.NAME` and by `Context.NAME`. Its own docstring lists the inputs and
  attributes.
  """

  __slots__ = ()

  if TYPE_CHECKING:  # the C++ class has it
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

  def __repr__(self) -> str:
    return f"<stretto.ops.{self.name}>"

  @property
  def __name__(self) -> str:
    return self.name


class _Document:
  """The docstring of an operator is that of its schema; that of the class is its own."""

  def __init__(self, of_class: str) -> None:
    self._of_class = of_class

  def __get__(self, instance: Operator | None, owner: type) -> str:
    return self._of_class if instance is None else _text(instance)


Operator.__doc__ = _Document(Operator.__doc__ or "")  # type: ignore[assignment]


def _types(names: list[str]) -> str:
  """float32 or int64, ...; empty where any type is taken or none is known."""
  return f" ({', '.join(names)})" if 0 < len(names) <= 6 else ""


def _text(op: Operator) -> str:
  domain, inputs, outputs, attributes = _stretto.operator_schema(op.name)
  marks = {"required": "", "optional": "=None", "variadic": "..."}
  words = [name + marks[arity] for name, arity, _ in inputs]
  words += ["*"] + [f"{name}={default or ('?' if required else 'None')}"
                    for name, _, required, default in attributes]
  lines = [f"{op.name}({', '.join(words)}, out=None, outputs=None, opset=None)", ""]
  page = f"{domain.replace('.', '')}_{op.name}" if domain else f"onnx__{op.name}"
  lines += [f"The operator {op.name} of {domain or 'ONNX'}, described at",
            f"https://onnx.ai/onnx/operators/{page}.html", ""]
  lines.append("Inputs, by position or by name:")
  lines += [f"  {name}: {arity}{_types(types)}" for name, arity, types in inputs]
  if attributes:
    lines += ["", "Attributes, by name:"]
    lines += [f"  {name}: {kind}, " + ("required" if required else
                                       f"default {default}" if default else "optional")
              for name, kind, required, default in attributes]
  lines += ["", "Outputs:"]
  lines += [f"  {name}: {arity}{_types(types)}" for name, arity, types in outputs]
  lines += ["", "`out` is an array, or a tuple of arrays, for the results; `outputs` says how many",
            "are made, by default the required ones; `opset` is that of the call, by default the",
            "newest."]
  return "\n".join(lines)


class Constant(_stretto.OperatorConstant):
  """An input whose values do not change: made by `constant`.

  It keeps a copy of the values, and what kernels make of them: at most 8 times their size and 1 MB,
  and for halves the values as float32.

  Attributes:
    shape: the dimensions.
    dtype: NumPy's name of the element type.
  """

  __slots__ = ()

  def __repr__(self) -> str:
    return f"<stretto.ops.Constant {self.dtype}{list(self.shape)}>"


def constant(values: Any) -> Constant:
  """Marks an input as one that does not change, such as weights.

  What kernels make of it (weights packed for a convolution or a product) is made once, when an
  operator is first called with it. What is made of a plain array is made in every call.

  That takes memory beside the values: at most 8 times their size and 1 MB, beyond which it is made
  anew, and for halves the values as float32.

  Args:
    values: a NumPy array, a PyTorch tensor, or what can be made an array. The values are copied:
      changing the array later does not change the constant.

  Returns:
    What operators take in place of the array. Each call of this function makes another constant,
    for which operators are compiled again, so keep it.

  Raises:
    InvalidArgumentError: it is no array of numbers.

  Examples:
    >>> w = stretto.ops.constant(np.ones((8, 3, 3, 3), np.float32))
    >>> stretto.ops.Conv(np.ones((1, 3, 5, 5), np.float32), w).shape
    (1, 8, 3, 3)
  """
  return Constant(values)


@dataclass(frozen=True)
class Statistics:
  """What a context has done.

  Attributes:
    hits: calls of an operator that was compiled already.
    misses: calls that compiled one.
    evictions: operators that went because there were `capacity` others.
    entries: operators that are kept now.
  """

  hits: int
  misses: int
  evictions: int
  entries: int


class Context:
  """Compiles operators, keeps them and runs them: `Context(threads=1).Conv(x, w)`.

  The functions of `stretto.ops` use one that all of them share. Any number of threads may use a
  context at the same time: as many calls run at once as their threads fit on the cores, and the
  others wait.

  Args:
    threads: the most threads that one call uses, 1 to 1024; None: one per physical core that this
      process may use. Operators that take less than some 50 us use one.
    accuracy: which kernels may be used, "default", "strict" or "fast" (see `stretto.optimize`).
    capacity: how many compiled operators are kept. The one that was not used for longest goes.
    tuning_cache: the file that knows the fastest kernels, as in `stretto.optimize`. Calls measure
      nothing and write nothing to it.

  Raises:
    InvalidArgumentError: an argument is out of range.

  Examples:
    >>> context = stretto.ops.Context(threads=1)
    >>> context.Relu(np.array([-1, 2], np.float32))
    array([0., 2.], dtype=float32)
    >>> context.statistics().entries
    1
  """

  def __init__(self, *, threads: int | None = None, accuracy: str = "default",
               capacity: int = 256, tuning_cache: str | os.PathLike[str] | None = None) -> None:
    self._context = _stretto.OperatorContext(
      _count("threads", threads, 1024) if threads is not None else 0, accuracy,
      _count("capacity", capacity, 2**31 - 1),
      "" if tuning_cache is None else path_text("tuning_cache", tuning_cache))

  def __getattr__(self, name: str) -> Operator:
    if name.startswith("_"):
      raise AttributeError(name)
    try:
      found = Operator(self._context, name)
    except InvalidArgumentError as error:
      raise AttributeError(str(error)) from None
    self.__dict__[name] = found  # Python asks once
    return found

  def __dir__(self) -> list[str]:
    return sorted({*object.__dir__(self), *operator_names()})

  def statistics(self) -> Statistics:
    """Counts what was found compiled and what was not.

    Returns:
      The counts since the context was made.
    """
    return Statistics(*self._context.statistics())

  def clear(self) -> None:
    """Forgets all compiled operators, and frees the memory that calls have used."""
    self._context.clear()


def _count(name: str, value: Any, most: int) -> int:
  try:
    count = operator.index(value)
  except TypeError:
    raise InvalidArgumentError(
      f"{name}: expected an integer, got {type(value).__name__}") from None
  if not 1 <= count <= most:
    raise InvalidArgumentError(f"{name}: expected 1 to {most}, got {count}")
  return count


@cache
def operator_names() -> tuple[str, ...]:
  """The names of all operators that can be called."""
  return tuple(_stretto.operator_names())


@cache
def default_context() -> Context:
  """Gives the context that the functions of `stretto.ops` use.

  Returns:
    The same object every time. It is made when it is first needed.
  """
  return Context()
