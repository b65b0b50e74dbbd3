"""The base of `stretto.tensorflow`, `stretto.keras` and `stretto.jax`: a job that the environment
describes, and named operations on NumPy arrays, which ranks may submit in different orders."""

from __future__ import annotations

import atexit
import itertools
import json
import os
import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from stretto import _process_end, comm
from stretto._checks import expected, is_whole, shown
from stretto._errors import Error, InvalidArgumentError
from stretto._launchers import rank_and_size
from stretto._place import Place
from stretto._unordered import Unordered

JOB: NamedJob | None = None


class Compression:
  """How gradients cross the wire: the values of `STRETTO_CODEC`. `none` is what that says."""
  none = ""
  fp16, bf16, int8, topk, powersgd, mixed = "fp16", "bf16", "int8", "topk", "powersgd", "mixed"


class NamedJob:

  def __init__(self, address: str, rank: int, size: int, epoch: int = 0,
               options: comm.Options | None = None):
    self.engine = comm.Engine(address, rank, size, options, epoch)
    self.place = Place.of(self.engine)
    self.ranks = list(range(size))
    self.unordered = Unordered(self.engine, "named", self.ranks)
    self.counters: dict[str, itertools.count] = defaultdict(itertools.count)
    self.gradients: dict[str, comm.Gradients] = {}  # by codec
    self.steps: dict[tuple[str, str], itertools.count] = defaultdict(lambda: itertools.count(1))

  def name(self, operation: str, name: str | None) -> str:
    # Without a name, the n-th call of an operation on one rank belongs to the n-th on all others.
    return f"{operation}.{name}" if name else f"{operation}.noname.{next(self.counters[operation])}"

  def all_reduce(self, arrays: Sequence[np.ndarray], names: Sequence[str],
                 op: str = "average") -> list[np.ndarray]:
    """Returns new arrays; those given are read without a copy."""
    check_op("all_reduce", op)
    arrays = [np.ascontiguousarray(a).reshape(np.shape(a)) for a in arrays]
    outputs = [np.empty_like(a) for a in arrays]
    handles = [self.submit(name, {"operation": f"all_reduce ({op})", "shape": list(a.shape)}, {
        "kind": comm.ALL_REDUCE, "dtype": a.dtype.name, "reduction": comm.REDUCTIONS.index(op),
        "count": a.size, "input": address_of(a), "output": address_of(out), "name": name})
        for a, out, name in zip(arrays, outputs, names)]
    self.wait_all(handles)
    return outputs

  def average_gradients(self, arrays: Sequence[np.ndarray], names: Sequence[str],
                        codec: str = "") -> list[np.ndarray]:
    """Averages over ranks through a codec (empty: STRETTO_CODEC), with error feedback by name."""
    codec = codec or self.engine.options.codec
    if codec == "none":
      return self.all_reduce(arrays, names)
    if codec not in self.gradients:
      self.gradients[codec] = comm.Gradients(self.engine, f"gradients, {codec}", self.ranks, codec)
    results = [np.array(a) for a in arrays]  # reduced in place
    handles = []
    for array, name in zip(results, names):
      rows = len(array) if array.ndim > 1 and array.size else 0
      where = (name, 0, array.size, rows, array.size // rows if rows else 0)
      description = json.dumps({"operation": f"gradient ({codec})", "dtype": array.dtype.name,
                                "shape": list(array.shape)})
      handles.append(self.unordered.submit_gradient(
          name, description, self.gradients[codec], [where], array.dtype.name, address_of(array),
          next(self.steps[codec, name])))
    self.wait_all(handles)
    return results

  def broadcast(self, array: np.ndarray, root: int, name: str) -> np.ndarray:
    """Returns a new array with the values of rank `root`."""
    self.check_root(root)
    result = np.array(array)
    address = address_of(result)
    self.wait_all([self.submit(name, {"operation": "broadcast", "root": root,
                                      "shape": list(result.shape)}, {
        "kind": comm.BROADCAST, "dtype": result.dtype.name, "count": result.size, "root": root,
        "input": address, "output": address})])
    return result

  def check_root(self, root: int) -> None:
    if not is_whole(root) or not 0 <= root < self.place.size:
      raise InvalidArgumentError(
          f"broadcast: expected a root from 0 to {self.place.size - 1}, got {shown(root)}")

  def all_gather(self, array: np.ndarray, name: str) -> np.ndarray:
    """The rows of all ranks, one after another. Ranks may have different numbers of rows."""
    array = np.ascontiguousarray(array)
    size, rest = self.place.size, array.shape[1:]
    rows = np.empty(size, np.int64)
    own = np.array([len(array)], np.int64)
    self.wait_all([self.submit(f"{name}, rows", {"operation": "all_gather of sizes"}, {
        "kind": comm.ALL_GATHER, "dtype": "int64", "count": 1, "input": address_of(own),
        "output": address_of(rows)})])
    output = np.empty((int(rows.sum()), *rest), array.dtype)
    each = int(np.prod(rest, dtype=np.int64))
    self.wait_all([self.submit(name, {"operation": "all_gather", "shape": ["*", *rest]}, {
        "kind": comm.ALL_GATHER, "dtype": array.dtype.name, "count": array.size,
        "input": address_of(array), "output": address_of(output),
        "output_counts": [int(n) * each for n in rows]})])
    return output

  def barrier(self) -> None:
    self.wait_all([self.submit(self.name("barrier", None), {"operation": "barrier"},
                               {"kind": comm.BARRIER, "dtype": "uint8"})])

  def submit(self, name: str, what: dict, operation: dict) -> int:
    description = json.dumps({**what, "dtype": operation["dtype"]})
    return self.unordered.submit(name, description, comm.WORLD, [operation])

  def wait_all(self, handles: list[int]) -> None:
    error = None
    for handle in handles:  # all of them, also after an error: the arrays are in use until then
      try:
        self.unordered.wait(handle)
      except Error as e:
        error = error or e
    if error is not None:
      raise error

  def close(self, waits: bool = True) -> None:
    if waits:
      self.unordered.leave()
    self.engine.close()


def check_op(operation: str, op: str) -> None:
  if op not in comm.REDUCTIONS:
    raise InvalidArgumentError(f"{operation}: op: expected one of {', '.join(comm.REDUCTIONS)}, "
                               f"got {shown(op)}")


def listed_variables(variables: Any, what: str) -> list[Any]:
  """The argument of broadcast_variables, which may be one variable; `what` it should be."""
  variables = list(variables) if isinstance(variables, Iterable) else [variables]
  for variable in variables:
    if not hasattr(variable, "assign"):
      raise expected("broadcast_variables: variables", what, variable)
  return variables


def address_of(array: np.ndarray) -> int:
  return array.__array_interface__["data"][0]


def place_in(environment: Mapping[str, str]) -> tuple[int, int, str] | None:
  """Rank, size and address as `stretto run`, torchrun, srun or mpirun set them; None: one rank."""
  found = rank_and_size(environment)
  if found is None:
    return None
  rank, size, _ = found
  address = environment.get("STRETTO_ADDRESS")
  if not address and "MASTER_ADDR" in environment:
    # The port itself is used by the launcher.
    address = f"{environment['MASTER_ADDR']}:{int(environment.get('MASTER_PORT', 29500)) + 1}"
  if address:
    return rank, size, address
  if size > 1:
    raise InvalidArgumentError(
        "init: STRETTO_ADDRESS is not set: HOST:PORT of rank 0, or a shared folder; "
        "stretto run sets it")
  return None


def init() -> None:
  """Joins the job that the launcher describes in the environment. May be called again.

  `stretto run`, torchrun, srun and mpirun set what is needed; without any of them this process is
  a job of one rank.

  Raises:
    InvalidArgumentError: the environment says how many ranks there are, but not where they meet.
    CommError: the other ranks did not come in time.
  """
  global JOB
  if JOB is not None:
    return
  _process_end.at_end_of_child(at_exit, _process_end.EARLY)
  found = place_in(os.environ)
  if found is not None:
    JOB = NamedJob(found[2], found[0], found[1], int(os.environ.get("STRETTO_EPOCH", "0")))
    return
  folder = tempfile.mkdtemp(prefix="stretto-")
  try:
    JOB = NamedJob(folder, 0, 1)
  finally:
    shutil.rmtree(folder)


def shutdown() -> None:
  """Leaves the job. Waits for the other ranks to call it too; the end of the process calls it."""
  global JOB
  if JOB is not None:
    job_, JOB = JOB, None
    job_.close()


@atexit.register
def at_exit() -> None:
  """A script that failed does not wait for the other ranks; they raise an error."""
  if JOB is not None and JOB.engine.forked:
    return  # the rank itself goes on
  if JOB is not None and _process_end.failed():
    JOB.close(waits=False)
  else:
    shutdown()


def job() -> NamedJob:
  if JOB is None:
    raise InvalidArgumentError("call init() first")
  return JOB


def is_initialized() -> bool:
  """Whether `init` was called.

  Returns:
    True between `init` and `shutdown`.
  """
  return JOB is not None


def rank() -> int:
  """The number of this rank.

  Returns:
    A number from 0, unique in the job.
  """
  return job().place.rank


def size() -> int:
  """The number of ranks.

  Returns:
    A number from 1.
  """
  return job().place.size


def local_rank() -> int:
  """The number of this rank among those on the same host.

  Returns:
    A number from 0.
  """
  return job().place.local_rank


def local_size() -> int:
  """The number of ranks on this host.

  Returns:
    A number from 1.
  """
  return job().place.local_size
