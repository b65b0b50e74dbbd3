"""What torch.compile(backend="stretto") does with a module, as figures."""

from __future__ import annotations

import collections
import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from stretto._errors import InvalidArgumentError
from stretto.aten._builder import HALF
from stretto.aten._compile import Compiled, Left, checked
from stretto.aten._model import dense


@dataclass(frozen=True)
class Part:
  """A model of Stretto inside a program.

  Attributes:
    operators: PyTorch's names of its operators, in order.
    bytes_in: of the tensors that enter it in one call; weights are constants and do not.
    bytes_out: of the tensors that leave it.
    bytes_copied: of those that are converted or made dense on their way.
    us: one call of it, in microseconds.
    border_us: what of that is not the model's own time: checks, conversions and new tensors.
  """

  operators: list[str]
  bytes_in: int
  bytes_out: int
  bytes_copied: int
  us: float
  border_us: float


@dataclass(frozen=True)
class Program:
  """A piece of the module that PyTorch traced without a break.

  Attributes:
    runs: "stretto", "mixed" or "pytorch".
    reason: why PyTorch runs all of it; None where it does not.
    ends: why the trace ended where it did; None where it reached the end of the function.
    calls: how often it was called with the inputs that were given.
    made: why it was made each time: "first call", "new shapes" or "changed weights".
    parts: its models.
    left: the operators that PyTorch runs.
    us: one call of it, in microseconds.
  """

  runs: str
  reason: str | None
  ends: str | None
  calls: int
  made: list[str]
  parts: list[Part]
  left: list[Left]
  us: float


@dataclass(frozen=True)
class Explanation:
  """What `explain` returns: print it, or read its fields.

  Attributes:
    programs: in the order in which they were traced. More than one means that the trace broke, or
      that PyTorch traced the module again for other inputs.
    us: one call of the compiled module with the last inputs, in microseconds.
    between_us: what of that lies outside of the programs: guards, and Python code between them.
  """

  programs: list[Program]
  us: float
  between_us: float

  def as_dict(self) -> dict[str, Any]:
    """The same as plain data, for JSON."""
    return dataclasses.asdict(self)

  def __str__(self) -> str:
    return "\n".join(_text(self))


def explain(module: Callable[..., Any], inputs: Any, *more: Any,
            kwargs: Mapping[str, Any] | None = None,
            options: Mapping[str, Any] | None = None, runs: int = 30) -> Explanation:
  """Compiles a module with `backend="stretto"`, calls it, and says what runs where at what cost.

  Args:
    module: a module or function, in evaluation mode.
    inputs: what it is called with: a tensor, or a tuple of positional arguments.
    *more: further inputs, called in order, such as other shapes: they show what is made again.
    kwargs: keyword arguments of every call.
    options: as for `torch.compile`: `level`, `accuracy`, `threads`, `tuning`, `tuning_cache` and
      `verify`.
    runs: how often each time is measured; medians count.

  Returns:
    The explanation. Times and bytes are those of the last inputs.

  Raises:
    InvalidArgumentError: an option is unknown, or `runs` is below 1.
  """
  if runs < 1:
    raise InvalidArgumentError(f"runs: expected at least 1, got {runs}")
  chosen = checked(options)
  recorded: list[_Recorded] = []

  def backend(program: GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
    recorded.append(_Recorded(program, examples, chosen))
    return recorded[-1]

  compiled = torch.compile(module, backend=backend)
  keywords = dict(kwargs or {})
  args: tuple[Any, ...] = ()
  with torch.no_grad():
    for given in (inputs, *more):
      args = tuple(given) if isinstance(given, (tuple, list)) else (given,)
      for entry in recorded:
        entry.last = None
      compiled(*args, **keywords)
    whole = _median_us(lambda: compiled(*args, **keywords), runs)
    programs = [_program(entry, runs) for entry in recorded]
  inside = sum(program.us for program, entry in zip(programs, recorded) if entry.last is not None)
  return Explanation(programs, whole, max(whole - inside, 0.0))


class _Recorded(Compiled):
  """A program that remembers what it was called with."""

  def __init__(self, program: GraphModule, examples: Sequence[Any],
               options: dict[str, Any]) -> None:
    super().__init__(program, examples, options)
    self.calls = 0
    self.last: tuple[Any, ...] | None = None
    reason = getattr(program, "compile_subgraph_reason", None)
    self.ends = _first_line(reason.reason) if reason is not None and reason.graph_break else None

  def __call__(self, *inputs: Any) -> Any:
    if self.last is None:
      self.calls += 1
      self.last = inputs
    return super().__call__(*inputs)


def _first_line(text: str) -> str:
  return text.strip().splitlines()[0] if text.strip() else text


def _program(entry: _Recorded, runs: int) -> Program:
  made, inputs = entry.current, entry.last
  if inputs is None:  # it was traced for other inputs than the last ones
    parts, us = [Part(p.operators, 0, 0, 0, 0.0, 0.0) for p in made.parts] if made else [], 0.0
  else:
    inputs = tuple(x.clone() if i in (made.changed if made else ()) else x
                   for i, x in enumerate(inputs))  # each call changes them
    parts = _parts(entry, inputs, runs) if made is not None else []
    us = _median_us(lambda: Compiled.__call__(entry, *inputs), runs)
  left = list(made.left) if made is not None else []
  if made is None:
    kind, reason = "pytorch", "gradients are recorded"
  else:
    reason = made.reason
    kind = "pytorch" if made.function is None else "mixed" if left else "stretto"
  return Program(kind, reason, entry.ends, entry.calls, list(entry.made), parts, left, us)


def _parts(entry: _Recorded, inputs: tuple[Any, ...], runs: int) -> list[Part]:
  """What enters and leaves every model in one call, and how long that takes."""
  assert entry.current is not None
  seen: dict[Any, tuple[Any, ...]] = {}
  hooks = [part.register_forward_pre_hook(lambda part, xs: seen.__setitem__(part, xs))
           for part in entry.current.parts]
  try:
    Compiled.__call__(entry, *inputs)
  finally:
    for hook in hooks:
      hook.remove()
  return [_part(part, seen[part], runs) for part in entry.current.parts if part in seen]


def _part(part: Any, given: tuple[Any, ...], runs: int) -> Part:
  pairs = [(spec, x) for spec, x in zip(part.inputs, given) if spec.dtype is not None]
  tensors = [dense(spec, x) for spec, x in pairs]
  outputs = [o for o in part.outputs if o.dtype is not None]
  results = [torch.empty(o.shape, dtype=torch.float32 if o.dtype in HALF else o.dtype)
             for o in outputs]
  places = [t.data_ptr() for t in tensors], [r.data_ptr() for r in results]
  whole, own = _medians_us([lambda: part(*given), lambda: part.session.run_at(*places)], runs)
  copied = [x for x, (_, given) in zip(tensors, pairs) if x is not given]
  copied += [r for r, o in zip(results, outputs) if o.dtype in HALF]
  return Part(part.operators, _bytes(x for _, x in pairs),
              sum(r.numel() * o.dtype.itemsize for r, o in zip(results, outputs)), _bytes(copied),
              whole, max(whole - own, 0.0))


def _bytes(tensors: Any) -> int:
  return sum(x.numel() * x.element_size() for x in tensors if isinstance(x, torch.Tensor))


def _median_us(call: Callable[[], Any], runs: int) -> float:
  return _medians_us([call], runs)[0]


def _medians_us(calls: Sequence[Callable[[], Any]], runs: int) -> list[float]:
  """Medians of calls that take turns, after one untimed call of each."""
  times: list[list[float]] = [[] for _ in calls]
  for call in calls:
    call()
  for _ in range(runs):
    for call, kept in zip(calls, times):
      begin = time.perf_counter()
      call()
      kept.append((time.perf_counter() - begin) * 1e6)
  return [statistics.median(kept) for kept in times]


# The table.


def _text(found: Explanation) -> list[str]:
  lines = []
  for i, program in enumerate(found.programs):
    again = collections.Counter(program.made)
    made = ", ".join(f"{reason} x{count}" if count > 1 else reason
                     for reason, count in again.items()) or "never"
    lines.append(f"program {i}: {_RUNS[program.runs]}, {program.us:.0f} us, made: {made}")
    if program.reason:
      lines.append(f"  PyTorch runs all of it: {program.reason}")
    if program.parts:
      lines.append(f"  {'part':>5} {'operators':>10} {'bytes in':>10} {'bytes out':>10} "
                   f"{'copied':>10} {'us':>10} {'border us':>10}")
    for j, part in enumerate(program.parts):
      lines.append(f"  {j:>5} {len(part.operators):>10} {part.bytes_in:>10} {part.bytes_out:>10} "
                   f"{part.bytes_copied:>10} {part.us:>10.1f} {part.border_us:>10.1f}")
    for (operator, reason), entries in _grouped(program.left).items():
      places = ", ".join(dict.fromkeys(entry.place for entry in entries[:3]))
      more = f" and {len(entries) - 3} more" if len(entries) > 3 else ""
      lines.append(f"  PyTorch: {operator} x{len(entries)}: {reason}, at {places}{more}")
    if program.ends:
      lines.append(f"  the trace breaks here: {program.ends}")
  lines.append(f"one call: {found.us:.0f} us, of which {found.between_us:.0f} us outside of the "
               "programs (guards, Python)")
  return lines


_RUNS = {"stretto": "Stretto", "mixed": "Stretto and PyTorch",
         "pytorch": "PyTorch"}


def _grouped(left: Sequence[Left]) -> dict[tuple[str, str], list[Left]]:
  groups: dict[tuple[str, str], list[Left]] = {}
  for entry in left:
    groups.setdefault((entry.operator, entry.reason), []).append(entry)
  return groups
