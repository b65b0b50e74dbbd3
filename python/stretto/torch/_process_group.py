"""The c10d backend: the collectives of torch.distributed on `comm::Engine`.

The creator of a backend may return a Python subclass of ProcessGroup, which torch then uses as the
process group (torch/distributed/distributed_c10d.py, _new_process_group_helper). DDP's C++ reducer
calls it through pybind11's trampolines. Where a method has an old and a new name, both are there,
because versions of torch call different ones.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from stretto import comm
from stretto._checks import expected
from stretto._errors import CommError, InvalidArgumentError
from stretto.torch import _jobs as jobs
from stretto.torch._barrier import monitored_barrier
from stretto.torch._buffers import (
  NAMES,
  give_back,
  host_memory,
  joined,
  parts,
  plain,
  staged,
  usable,
)
from stretto.torch._calls import (
  check_alike,
  check_list,
  exchange,
  one_or_more,
  reduce_options,
  row_counts,
  uneven,
)
from stretto.torch._described import BackendOptions, Described
from stretto.torch._names import Backward, find_name, graph_task
from stretto.torch._small import all_reduce_small
from stretto.torch._transfers import Feeder
from stretto.torch._work import Work

# Codecs are for gradients: shorter reductions (counters, losses, norms) stay exact.
CODEC_ELEMENTS = 1024
WIRE_CODECS = ("fp16", "bf16", "int8")  # the others need the names of parameters: attach()
PREMUL_SUM = 8  # ReduceOp.PREMUL_SUM; the numbers below it are the engine's too


def create(options, group_options) -> ProcessGroup:
  """The creator that torch calls; options are its _DistributedBackendOptions."""
  size = options.group_size
  if not isinstance(group_options, (jobs.GroupOptions, BackendOptions, type(None))):
    raise expected("pg_options", "stretto.torch.GroupOptions or None", group_options)
  ours = group_options if isinstance(group_options, jobs.GroupOptions) else jobs.GroupOptions()
  job, group, name, members = jobs.join(options, size, ours.epoch)
  result = ProcessGroup(job, group, name, members, options.group_rank,
                        ours.codec or job.engine.options.codec, timeout_of(options, job))
  result.store, result._name = options.store, str(options.group_id)
  job.attach(result, group)
  job.engine.find_name = find_name(job.groups)
  return result


def timeout_of(options, job: jobs.Job) -> float:
  """Seconds for every operation of a new group. A timeout that the script gives comes before the
  environment's, and torch's default after it."""
  seconds = options.timeout.total_seconds()
  if "STRETTO_OPERATION_TIMEOUT" in os.environ and options.timeout == default_pg_timeout:
    seconds = job.engine.options.operation_timeout_s
  return seconds


def statistics(group=None) -> dict:
  """What the engine of a process group has done so far.

  Args:
    group: the process group; None: all ranks.

  Returns:
    As `stretto.comm.Engine.statistics`.

  Raises:
    InvalidArgumentError: there is no such group, or it has another backend.
  """
  group = dist.group.WORLD if group is None else group
  if group is None:
    raise InvalidArgumentError("statistics: call torch.distributed.init_process_group() first")
  if not isinstance(group, ProcessGroup):
    raise expected("statistics: group", 'a process group of the backend "stretto"', group)
  return group.engine.statistics()


class ProcessGroup(Described):

  def __init__(self, job: jobs.Job, group: int, name: str, members: list[int], rank: int,
               codec: str, timeout_s: float):
    super().__init__(rank, len(members))
    self.job, self.engine, self.group = job, job.engine, group
    self._rank, self._size, self._name, self.codec = rank, len(members), name, codec
    self.engine_name = name
    self.members = members  # ranks of the job
    self.job_rank = job.engine.rank
    self.timeout_s = timeout_s
    self.store = None
    self.users: weakref.WeakSet = weakref.WeakSet()  # to be closed with it
    self.followers: weakref.WeakSet = weakref.WeakSet()  # whose timeout is that of this group
    self._destroyed = False
    self.backward = Backward()
    self._sequence, self._description, self._barriers = 0, "", 0
    self.abandoned: list = []
    self.feeder = Feeder()

  # Starting operations.

  def start(self, what: str, opts, operations: list[dict], result: list[torch.Tensor], keep: list,
            finish=None, arrivals: Sequence = ()) -> Work:
    """Submits the operations as one Work, when the events in `arrivals` have come."""
    if self._destroyed:
      raise InvalidArgumentError(f"{what}: the process group was destroyed")
    seconds = self.limit_s(opts)
    work = Work(self, what, result, keep, finish, -1.0)
    task = graph_task()
    if task != -1:
      self.backward.tag(task, operations)
    # Torch's functions say when they are about to wait.
    blocking = not getattr(opts, "asyncOp", True)
    if blocking and arrivals and self.feeder.idle():
      for event in arrivals:
        event.synchronize()
      arrivals = ()
    if not operations:
      work.complete()
    elif arrivals or not self.feeder.idle():
      work.expect(len(operations))
      self.feeder.add(arrivals, lambda: self.start_reporting(work, operations, seconds))
    elif what == "recv":  # whose source comes with the completion
      work.expect(len(operations))
      work.will_report([self.engine.submit_queued(work.operation_done, self.group,
                                                  timeout_s=seconds, **operation)
                        for operation in operations])
    else:
      work.waiting_for(self.engine._submit_all(self.group, operations, seconds, blocking))
    self._sequence += 1
    return work

  def limit_s(self, opts) -> float:
    """Seconds for an operation with these options of torch."""
    timeout = getattr(opts, "timeout", None)
    seconds = timeout.total_seconds() if timeout else -1.0
    return seconds if seconds > 0 else self.timeout_s

  def start_reporting(self, work: Work, operations: list[dict], seconds: float) -> None:
    """Raises nothing: the Work has the error."""
    handles: list[int] = []
    try:
      for operation in operations:
        handles.append(self.engine.submit_queued(work.operation_done, self.group,
                                                 timeout_s=seconds, **operation))
    except Exception as error:
      for _ in operations[len(handles):]:
        work.operation_done(error)
    work.will_report(handles)

  def reduction(self, op, tensor: torch.Tensor, what: str) -> int:
    number = int(getattr(op, "op", op))
    if number > 1:  # neither sum nor average
      if number >= PREMUL_SUM:
        raise InvalidArgumentError(
            f"{what}: PREMUL_SUM is not supported; scale the tensor before a sum")
      if tensor.is_complex():
        raise InvalidArgumentError(f"{what}: complex numbers have sum and average only")
    return number

  def fail(self, reason: str) -> None:
    self.job.failed = True
    self.engine.native.abort(reason)

  # Reductions.

  def allreduce(self, tensors, opts=None) -> Work:
    return all_reduce_small(self, tensors, opts) or self.reduce_all(
        "all_reduce", one_or_more(tensors), reduce_options(opts, dist.AllreduceOptions))

  def allreduce_coalesced(self, tensors, opts=None) -> Work:
    return self.reduce_all("all_reduce", list(tensors),
                           reduce_options(opts, dist.AllreduceCoalescedOptions))

  def reduce_all(self, what: str, tensors: list[torch.Tensor], opts) -> Work:
    operations, keep, moves, arrivals = [], [], [], []
    for tensor in tensors:
      number = self.reduction(opts.reduceOp, tensor, what)
      host = tensor
      if not usable(tensor):
        values = plain(tensor, what, sums=True)
        host = staged(values, read=True, arrivals=arrivals)
        moves.append((values, host))
      address, count = host.data_ptr(), host.numel()
      # Without error feedback: nothing tells whether this tensor is the one of the last step.
      coded = (count >= CODEC_ELEMENTS and number <= 1 and self.codec in WIRE_CODECS
               and host.dtype is torch.float32)
      operations.append({"kind": comm.ALL_REDUCE, "dtype": NAMES[host.dtype], "count": count,
                         "input": address, "output": address, "reduction": number,
                         "codec": self.codec if coded else "none"})
      keep.append(host)
    return self.start(what, opts, operations, tensors, keep, give_back(moves), arrivals)

  def average_bucket(self, gradients: comm.Gradients, buffer, slices: list[tuple], step: int,
                     loss_scale: float) -> torch.futures.Future:
    """What attach()'s hook calls: the mean over ranks, in place."""
    arrivals: list = []
    values = plain(buffer, "all_reduce", sums=True)
    host = staged(values, read=True, arrivals=arrivals)
    parts_of_each = host.numel() // max(buffer.numel(), 1)  # two for complex numbers
    if parts_of_each > 1:
      slices = [(name, 0, count * parts_of_each, 0, 0) for name, _, count, _, _ in slices]
    work = Work(self, "all_reduce", [buffer], [host], give_back([(values, host)]), -1.0)
    work.expect(1)

    def submit() -> None:
      gradients.submit(work.operation_done, slices, NAMES[host.dtype], host.data_ptr(), step,
                       loss_scale, self.timeout_s)

    def submit_later() -> None:
      try:
        submit()
      except Exception as error:
        work.operation_done(error)

    if arrivals or not self.feeder.idle():
      self.feeder.add(arrivals, submit_later)
    else:
      submit()
    return work.get_future().then(lambda done: done.value()[0])

  def reduce(self, tensors, opts=None) -> Work:
    tensors = one_or_more(tensors)
    opts = opts or dist.ReduceOptions()
    root = opts.rootRank
    arrivals: list = []
    values = plain(tensors[0], "reduce", sums=True)
    host = staged(values, read=True, arrivals=arrivals)
    # Torch leaves the tensors of ranks that are not the root as they were.
    output = host.clone() if host is values and root != self._rank else host
    operation = {"kind": comm.REDUCE, "dtype": NAMES[host.dtype], "count": host.numel(),
                 "input": host.data_ptr(), "output": output.data_ptr(), "root": root,
                 "reduction": self.reduction(opts.reduceOp, tensors[0], "reduce")}
    moves = [(values, host)] if root == self._rank else []
    return self.start("reduce", opts, [operation], tensors, [host, output], give_back(moves),
                      arrivals)

  def reduce_scatter(self, outputs, inputs, opts=None) -> Work:
    outputs, inputs = list(outputs), list(inputs)
    if len(outputs) != 1 or len(inputs[0]) != self._size:
      raise InvalidArgumentError(
          f"reduce_scatter: expected {self._size} inputs for one output, got "
          f"{len(inputs[0])} for {len(outputs)}")
    opts = opts or dist.ReduceScatterOptions()
    whole = joined([plain(t, "reduce_scatter", sums=True) for t in inputs[0]])
    counts = [plain(t, "reduce_scatter", sums=True).numel() for t in inputs[0]]
    check_alike("reduce_scatter", f"input {self._rank}", inputs[0][self._rank], "the output",
                outputs[0])
    return self.scatter_sums([(outputs[0], whole, counts)], opts)

  def reduce_scatter_single(self, output, tensor, opts=None) -> Work:
    return self.reduce_scatter_single_coalesced([output], [tensor], opts)

  def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None) -> Work:
    opts = opts or dist.ReduceScatterOptions()
    pieces, arrivals = [], []
    for output, tensor in zip(outputs, inputs):
      if output.numel() * self._size != tensor.numel():
        raise InvalidArgumentError(
            f"reduce_scatter: {tensor.numel()} elements are not {self._size} times "
            f"{output.numel()}")
      if output.dtype != tensor.dtype:
        raise InvalidArgumentError(f"reduce_scatter: the input is of {tensor.dtype}, and the "
                                   f"output of {output.dtype}")
      whole = staged(plain(tensor, "reduce_scatter", sums=True), read=True, arrivals=arrivals)
      pieces.append((output, whole, None))
    return self.scatter_sums(pieces, opts, arrivals)

  def scatter_sums(self, pieces, opts, arrivals: Sequence = ()) -> Work:
    operations, keep, moves = [], [], []
    for output, whole, counts in pieces:
      values = plain(output, "reduce_scatter", sums=True)
      host = staged(values, read=False)
      operations.append({"kind": comm.REDUCE_SCATTER, "dtype": NAMES[host.dtype],
                         "count": host.numel(), "input": whole.data_ptr(),
                         "output": host.data_ptr(),
                         "input_counts": uneven(counts),
                         "reduction": self.reduction(opts.reduceOp, output, "reduce_scatter")})
      keep += [whole, host]
      moves.append((values, host))
    return self.start("reduce_scatter", opts, operations, [p[0] for p in pieces], keep,
                      give_back(moves), arrivals)

  # Moving data.

  def broadcast(self, tensors, opts=None) -> Work:
    tensors = one_or_more(tensors)
    opts = opts or dist.BroadcastOptions()
    values = plain(tensors[0], "broadcast", sums=False)
    root = opts.rootRank
    arrivals: list = []
    host = staged(values, read=root == self._rank, arrivals=arrivals)
    address = host.data_ptr()
    operation = {"kind": comm.BROADCAST, "dtype": NAMES[host.dtype], "count": host.numel(),
                 "input": address, "output": address, "root": root}
    moves = [] if root == self._rank else [(values, host)]
    return self.start("broadcast", opts, [operation], tensors, [host], give_back(moves), arrivals)

  def allgather(self, outputs, inputs, opts=None) -> Work:
    outputs, inputs = list(outputs), one_or_more(inputs)
    if isinstance(outputs[0], torch.Tensor):
      outputs = [outputs]
    return self.gather_lists("all_gather", outputs, inputs, opts)

  def allgather_coalesced(self, outputs, inputs, opts=None) -> Work:
    # Torch passes a list of each rank's tensors.
    return self.gather_lists("all_gather", [list(ts) for ts in zip(*outputs)], list(inputs), opts)

  def gather_lists(self, what: str, outputs, inputs, opts) -> Work:
    operations, keep, moves, arrivals = [], [], [], []
    for tensors, tensor in zip(outputs, inputs):
      if len(tensors) != self._size:
        raise InvalidArgumentError(f"{what}: {len(tensors)} outputs for {self._size} ranks")
      check_alike(what, f"output {self._rank}", tensors[self._rank], "the input", tensor)
      targets = [plain(t, what, sums=False) for t in tensors]
      source = staged(plain(tensor, what, sums=False), read=True, arrivals=arrivals)
      counts = [t.numel() for t in targets]
      flat = host_memory(sum(counts), source.dtype, tensor.device)
      operations.append({"kind": comm.ALL_GATHER, "dtype": NAMES[source.dtype],
                         "count": source.numel(), "input": source.data_ptr(),
                         "output": flat.data_ptr(), "output_counts": uneven(counts)})
      keep += [source, flat]
      moves += zip(targets, parts(flat, targets))
    return self.start(what, opts, operations, [t for ts in outputs for t in ts], keep,
                      give_back(moves), arrivals)

  def all_gather_single(self, output, tensor, opts=None) -> Work:
    return self.all_gather_single_coalesced([output], [tensor], opts)

  def all_gather_single_coalesced(self, outputs, inputs, opts=None) -> Work:
    operations, keep, moves, arrivals = [], [], [], []
    for output, tensor in zip(outputs, inputs):
      if tensor.numel() * self._size != output.numel() or tensor.dtype != output.dtype:
        raise InvalidArgumentError(
            f"all_gather: {self._size} times {tensor.numel()} {tensor.dtype} do not "
            f"make {output.numel()} {output.dtype}")
      source = staged(plain(tensor, "all_gather", sums=False), read=True, arrivals=arrivals)
      values = plain(output, "all_gather", sums=False)
      host = staged(values, read=False)
      operations.append({"kind": comm.ALL_GATHER, "dtype": NAMES[source.dtype],
                         "count": source.numel(), "input": source.data_ptr(),
                         "output": host.data_ptr()})
      keep += [source, host]
      moves.append((values, host))
    return self.start("all_gather", opts, operations, list(outputs),
                      keep, give_back(moves), arrivals)

  def gather(self, outputs, inputs, opts=None) -> Work:
    opts = opts or dist.GatherOptions()
    tensor, arrivals = one_or_more(inputs)[0], []
    source = staged(plain(tensor, "gather", sums=False), read=True, arrivals=arrivals)
    here = opts.rootRank == self._rank
    tensors = list(outputs[0]) if here and outputs else []
    if here:
      check_list("gather", "outputs", tensors, tensor, self._size)
    targets = [plain(t, "gather", sums=False) for t in tensors]
    flat = host_memory(self._size * source.numel() if here else 0, source.dtype, tensor.device)
    operation = {"kind": comm.GATHER, "dtype": NAMES[source.dtype], "count": source.numel(),
                 "input": source.data_ptr(), "output": flat.data_ptr(), "root": opts.rootRank}
    return self.start("gather", opts, [operation], tensors, [source, flat],
                      give_back(list(zip(targets, parts(flat, targets)))), arrivals)

  def scatter(self, outputs, inputs, opts=None) -> Work:
    opts = opts or dist.ScatterOptions()
    output = one_or_more(outputs)[0]
    values = plain(output, "scatter", sums=False)
    host = staged(values, read=False)
    whole = torch.empty(0, device="cpu")
    if opts.rootRank == self._rank:
      sources = list(inputs[0]) if inputs else []
      check_list("scatter", "inputs", sources, output, self._size)
      whole = joined([plain(t, "scatter", sums=False) for t in sources])
    operation = {"kind": comm.SCATTER, "dtype": NAMES[host.dtype], "count": host.numel(),
                 "input": whole.data_ptr(), "output": host.data_ptr(), "root": opts.rootRank}
    return self.start("scatter", opts, [operation], [output], [whole, host],
                      give_back([(values, host)]))

  def all_to_all_single(self, output, tensor, output_splits=None, input_splits=None,
                        opts=None) -> Work:
    arrivals: list = []
    source = staged(plain(tensor, "all_to_all", sums=False), read=True, arrivals=arrivals)
    values = plain(output, "all_to_all", sums=False)
    host = staged(values, read=False)
    sends = row_counts(source, input_splits, self._size)
    receives = row_counts(values, output_splits, self._size)
    return self.start("all_to_all", opts or dist.AllToAllOptions(),
                      [exchange(source, host, sends, receives)], [output], [source, host],
                      give_back([(values, host)]), arrivals)

  def alltoall(self, outputs, inputs, opts=None) -> Work:
    outputs, inputs = list(outputs), [plain(t, "all_to_all", sums=False) for t in inputs]
    targets = [plain(t, "all_to_all", sums=False) for t in outputs]
    source = joined(inputs)
    flat = host_memory(sum(t.numel() for t in targets), source.dtype, outputs[0].device)
    operation = exchange(source, flat, [t.numel() for t in inputs], [t.numel() for t in targets])
    return self.start("all_to_all", opts or dist.AllToAllOptions(), [operation], outputs,
                      [source, flat], give_back(list(zip(targets, parts(flat, targets)))))

  def send(self, tensors, peer: int, tag: int = 0) -> Work:
    tensors = one_or_more(tensors)
    arrivals: list = []
    host = staged(plain(tensors[0], "send", sums=False), read=True, arrivals=arrivals)
    operation = {"kind": comm.SEND, "dtype": NAMES[host.dtype], "count": host.numel(),
                 "input": host.data_ptr(), "peer": peer, "tag": tag}
    return self.start("send", None, [operation], tensors, [host], None, arrivals)

  def recv(self, tensors, peer: int, tag: int = 0) -> Work:
    tensors = one_or_more(tensors)
    values = plain(tensors[0], "recv", sums=False)
    host = staged(values, read=False)
    operation = {"kind": comm.RECV, "dtype": NAMES[host.dtype], "count": host.numel(),
                 "output": host.data_ptr(), "peer": peer, "tag": tag}
    return self.start("recv", None, [operation], tensors, [host], give_back([(values, host)]))

  def recv_anysource(self, tensors, tag: int = 0) -> Work:
    return self.recv(tensors, comm.ANY_PEER, tag)

  def barrier(self, opts=None) -> Work:
    return self.start("barrier", opts or dist.BarrierOptions(),
                      [{"kind": comm.BARRIER, "dtype": "uint8"}], [], [])

  # The other names of the same.

  _allgather_base = all_gather_single
  _reduce_scatter_base = reduce_scatter_single
  alltoall_base = all_to_all_single
  allgather_into_tensor_coalesced = all_gather_single_coalesced
  reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

  # Everything around the collectives.

  def monitored_barrier(self, timeout=None, wait_all_ranks: bool = False) -> None:
    """dist.monitored_barrier: through the store, so that it does not need the ranks' connections
    and can name every rank that is missing. The group can be used after an error."""
    self.engine.check_process()
    seconds = timeout.total_seconds() if timeout else self.timeout_s
    self._barriers += 1
    monitored_barrier(self.store, self._rank, self._size, f"barrier {self._barriers}", seconds,
                      wait_all_ranks)

  def _start_coalescing(self, device) -> None:
    del device  # operations start at once, and the engine joins small ones by itself

  def _end_coalescing(self, device) -> Work:
    del device
    return self.start("coalesced operations", None, [], [], [])

  def set_timeout(self, timeout) -> None:
    self.timeout_s = timeout.total_seconds()
    for follower in list(self.followers):
      follower.set_timeout(timeout)

  setTimeout = _set_default_timeout = set_timeout

  def abort(self) -> None:
    self.fail(f"aborted by rank {self.job_rank}")

  def shutdown(self) -> None:
    """What destroy_process_group calls. Modules and Works may refer to the group for longer."""
    self._destroyed = True
    self.feeder.close()
    for user in list(self.users):
      user.close()
    self.store = None
    self.job.release(self.group)


__all__ = ["CommError", "ProcessGroup", "create", "statistics"]
