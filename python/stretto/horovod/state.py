"""What init() sets up, and where this process stands in the job."""

from __future__ import annotations

import json
import os

import torch
import torch.distributed as dist

import stretto.torch  # noqa: F401  registers the backend
from stretto.horovod.coordinator import Coordinator

kJob: State | None = None


class State:

  def __init__(self):
    self.owns_group = not dist.is_initialized()
    if self.owns_group:
      initialise()
    self.data = dist.new_group(backend="stretto")
    control = dist.new_group(backend="stretto")
    self.control = control
    hosts = self.data.engine.native.hosts
    rank = self.data.engine.rank
    self.rank, self.size = rank, self.data.engine.size
    host = next(i for i, ranks in enumerate(hosts) if rank in ranks)
    self.local_rank, self.local_size = hosts[host].index(rank), len(hosts[host])
    self.cross_rank = sum(len(ranks) > self.local_rank for ranks in hosts[:host])
    self.cross_size = sum(len(ranks) > self.local_rank for ranks in hosts)
    self.homogeneous = len({len(ranks) for ranks in hosts}) == 1
    self.coordinator = Coordinator(control.engine, control.group, self.stand_in)

  def stand_in(self, description: str):
    """Starts, for a rank that has joined, what the others do: with nothing of its own to add."""
    what = json.loads(description)
    if what["operation"] != "allreduce":
      raise ValueError(f"join: the other ranks do an {what['operation']}; after join() only "
                       "allreduce can go on")
    options = dist.AllreduceOptions()
    options.reduceOp = kOperations[what["op"]]
    tensors = [torch.zeros(shape, dtype=getattr(torch, what["dtype"].removeprefix("torch.")))
               for shape in what["shapes"]]
    return tensors, self.data.allreduce_coalesced(tensors, options)


# Names of the module's operations; the average is formed by the engine.
kOperations = {"Average": dist.ReduceOp.AVG, "Sum": dist.ReduceOp.SUM, "Min": dist.ReduceOp.MIN,
               "Max": dist.ReduceOp.MAX, "Product": dist.ReduceOp.PRODUCT}


def initialise() -> None:
  """As torchrun, srun or mpirun started this process; alone otherwise."""
  environment = os.environ
  for rank, size in (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"),
                     ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")):
    if rank in environment and size in environment and "MASTER_ADDR" in environment:
      environment.setdefault("MASTER_PORT", "29500")
      dist.init_process_group("stretto", rank=int(environment[rank]),
                              world_size=int(environment[size]))
      return
  dist.init_process_group("stretto", store=dist.HashStore(), rank=0, world_size=1)


def init(*_, **__) -> None:
  """Joins the job that the launcher describes in the environment. May be called again."""
  global kJob
  if kJob is None:
    kJob = State()


def shutdown() -> None:
  """Waits for the other ranks to call it too."""
  global kJob
  if kJob is None:
    return
  job, kJob = kJob, None
  job.coordinator.leave()
  owned = job.owns_group
  del job
  if owned:
    dist.destroy_process_group()


def job() -> State:
  if kJob is None:
    raise ValueError("horovod: call hvd.init() first")
  return kJob


def is_initialized() -> bool:
  return kJob is not None


def rank() -> int:
  return job().rank


def size() -> int:
  return job().size


def local_rank() -> int:
  return job().local_rank


def local_size() -> int:
  return job().local_size


def cross_rank() -> int:
  """Among the ranks with the same local rank, one per host."""
  return job().cross_rank


def cross_size() -> int:
  return job().cross_size


def is_homogeneous() -> bool:
  return job().homogeneous
