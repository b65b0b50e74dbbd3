"""Jobs of a Slurm site: a loopback cluster of `up --local-slurm`, the site of this host, or one
that ssh reaches."""

from __future__ import annotations

import os
import secrets
import sys

from stretto.cluster import _loopback
from stretto.cluster import _slurm_output as output
from stretto.cluster import _slurm_script as script
from stretto.cluster._backend import OVER, Backend, Chips, Request, Row, State
from stretto.cluster._host import ClusterError, Host

SUBMIT_S = 60.0
SECRET, SECRET_BYTES = "STRETTO_SECRET", 32


class Slurm(Backend):

  name = "slurm"

  def __init__(self, host: Host, loopback: _loopback.Loopback | None = None) -> None:
    self.host, self.loopback = host, loopback

  def about(self) -> str:
    version = output.version_of(self.host.ask(["sinfo", "--version"]))
    place = f"cluster {self.loopback.name} on this machine" if self.loopback else \
      f"the site of {self.host.name}" if self.host.name else "the site of this host"
    return f"Slurm {version}, {place}"

  def describe(self) -> dict[str, str]:
    return {"backend": self.name, "host": self.host.name,
            "cluster": str(self.loopback.conf) if self.loopback else ""}

  def files(self, request: Request) -> dict[str, str]:
    kinds = output.gres_of(self.host.ask(["sinfo", "-h", "-N", "-o", output.NODES])) \
      if any(part.total for part in request.parts) else {}
    own = request.python or ("python3" if self.host.name else sys.executable)
    components = [component(part, kinds, own) for part in request.parts]
    # Nodes of a loopback cluster share an address; what Slurm reserves on each may be the same.
    resv = not self.loopback and output.has_reserved_ports(
      self.host.ask(["scontrol", "show", "config"]))
    return {"job.sh": script.text(request, components, not self.host.name, resv)}

  def words(self, request: Request) -> list[str]:
    return ["sbatch", "--parsable", "--export=ALL", f"--job-name={request.name}", "job.sh"]

  def submit(self, request: Request, folder: str) -> str:
    # Slurm keeps the environment for later starts; no command line and no file of ours has it.
    environment = {**request.secrets, SECRET: os.environ.get(SECRET)
                   or secrets.token_hex(SECRET_BYTES)}
    return output.job_number(self.host.ask(self.words(request), environment=environment,
                                           folder=folder, timeout=SUBMIT_S))

  def state(self, job: str, folder: str) -> State:
    done = self.host.run(["squeue", "-h", "-j", job, "-t", "all", "-o", output.STATE])
    if done.code == 0:
      return output.states(done.out) or State(OVER)
    if any(text in (done.err + done.out).lower() for text in output.GONE):
      return State(OVER)
    raise ClusterError(f"squeue {self.host.where}: {done.reason}")

  def stop(self, job: str, folder: str) -> None:
    done = self.host.run(["scancel", job])
    if done.code != 0 and not any(t in done.err.lower() for t in output.GONE):
      raise ClusterError(f"scancel {self.host.where}: {done.reason}")

  def rows(self, everybody: bool) -> list[Row]:
    whose = [] if everybody else ["--me"]
    return output.rows(self.host.ask(["squeue", "-h", *whose, "-o", output.QUEUE]))

  def shell(self, job: str, folder: str, rank: int) -> list[str]:
    place = self.host.call("read_text", folder, f"progress/rank-{rank:05}.node")
    words = (place or "").split()
    if len(words) != 2:
      raise ClusterError(f"rank {rank}: it has not started; `stretto cluster ls` says what the job "
                         "waits for")
    node, number = words
    return ["srun", f"--jobid={number}", "--overlap", "--pty", f"--nodelist={node}", "--nodes=1",
            "--ntasks=1", os.environ.get("SHELL", "/bin/bash"), "-i"]


def component(part: Chips, kinds: dict[str, tuple[str, dict[str, int]]],
              python: str) -> script.Component:
  python = part.python or python
  if not part.total:
    if part.nodes is not None and part.ranks % part.nodes:
      raise ValueError(f"-n {part.ranks}: does not divide into {part.nodes} nodes")
    return script.Component(part.nodes, part.ranks, "", python)
  if part.kind not in kinds:
    known = ", ".join(f"{kind} ({sum(nodes.values())})" for kind, (_, nodes) in
                      sorted(kinds.items()))
    raise ClusterError(f"--chips {part.kind}:{part.total}: no node has such chips; " +
                       (f"this site has {known}" if known else "no node of this site has chips"))
  spelling, by_node = kinds[part.kind]
  most, total = max(by_node.values()), sum(by_node.values())
  if part.total > total:
    raise ClusterError(f"--chips {part.kind}:{part.total}: all nodes together have {total}")
  nodes = part.nodes or fewest_nodes(part.total, most)
  if part.total // nodes > most:
    raise ClusterError(f"--chips {part.kind}:{part.total}: a node has {most} at most; --nodes "
                       f"{fewest_nodes(part.total, most)} or more")
  if part.ranks % nodes:
    raise ValueError(f"-n {part.ranks}: does not divide into the {nodes} nodes of --chips "
                     f"{part.kind}:{part.total}")
  return script.Component(nodes, part.ranks, f"{spelling}:{part.total // nodes}", python)


def fewest_nodes(count: int, most: int) -> int:
  """Nodes get equally many chips."""
  return next(n for n in range(-(-count // most), count + 1) if count % n == 0)
