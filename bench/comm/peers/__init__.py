"""The engines that are compared: one row each.

A driver module has `connect(context) -> driver`; a driver has
  buffers(bytes, count) -> a list of fp32 arrays (torch or NumPy)
  each(buffers)      all-reduces them in place, one after the other
  burst(buffers)     the same, all in flight at once
  broadcast(buffers) gives every rank what rank 0 has
  barrier(), version(), close()
and, where it can, `wrap(model, wire) -> model` to train with DDP, `synchronize()` to average its
parameters where a step policy lets them differ, and `step()` to say that a step is
over.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Context:
  """Where a rank finds itself."""
  rank: int
  size: int
  address: str  # of rank 0's host
  port: int
  interfaces: list[str]
  setting: str
  folder: str  # of this peer's ranks, whatever their host


@dataclass(frozen=True)
class Peer:
  name: str
  module: str
  about: str
  setting: str = "default"
  launcher: str = "direct"  # "mpirun": it starts the ranks itself
  mca: tuple[tuple[str, str], ...] = ()  # settings for mpirun
  # Only with --peers, and alone: it takes time from others while it has no turn.
  on_request: bool = False
  # Another build of this peer, whose Python package is in the folder that the variable names.
  like: str = ""
  package: str = ""
  environment: dict[str, str] = field(default_factory=dict)  # of its ranks

  @property
  def row(self) -> str:
    """The row of PEERS with its driver."""
    return self.like if self.environment else self.name

  def driver(self):
    return importlib.import_module(f"bench.comm.peers.{self.module}")


PEERS = (
    Peer("gloo", "c10d", "Gloo through torch.distributed, as it comes"),
    Peer("gloo-tuned", "c10d", "Gloo with four connections per pair and tensors in eight pieces",
         setting="tuned"),
    Peer("openmpi", "openmpi", "Open MPI through mpi4py, yielding when idle", launcher="mpirun"),
    Peer("openmpi-tuned", "openmpi", "the same, four connections, a ring, the kernel's buffers",
         launcher="mpirun", mca=(("btl_tcp_links", "4"), ("btl_tcp_sndbuf", "0"),
                                 ("btl_tcp_rcvbuf", "0"), ("coll_tuned_use_dynamic_rules", "1"),
                                 ("coll_tuned_allreduce_algorithm", "4"))),
    Peer("horovod", "horovod", "Horovod's torch functions over Open MPI", launcher="mpirun",
         on_request=True),
    Peer("horovod-tuned", "horovod", "the same, looking for work ten times as often",
         setting="tuned", launcher="mpirun", on_request=True),
    Peer("stretto", "c10d", "Stretto through torch.distributed", setting="stretto"),
    Peer("stretto-core", "core", "Stretto's engine on NumPy arrays, as mpi4py has them"),
    Peer("stretto-horovod", "horovod", "Stretto's module of Horovod's functions",
         setting="stretto", on_request=True),
    Peer("stretto-before", "c10d", "the Stretto package in $STRETTO_BENCH_BEFORE, as stretto",
         setting="stretto", like="stretto", package="STRETTO_BENCH_BEFORE"),
    Peer("stretto-core-before", "core", "the same, as stretto-core", like="stretto-core",
         package="STRETTO_BENCH_BEFORE"),
    Peer("stretto-mac-on", "core", "stretto-core with STRETTO_MAC=on", like="stretto-core",
         environment={"STRETTO_MAC": "on"}),
    Peer("stretto-mac-off", "core", "stretto-core with STRETTO_MAC=off", like="stretto-core",
         environment={"STRETTO_MAC": "off"}),
    Peer("stretto-nan-off", "core", "stretto-core with STRETTO_NAN_CHECK=off", like="stretto-core",
         environment={"STRETTO_NAN_CHECK": "off"}),
)


def find(name: str) -> Peer:
  for peer in PEERS:
    if peer.name == name:
      return peer
  raise ValueError(f"no peer '{name}'; there are: " + ", ".join(p.name for p in PEERS))
