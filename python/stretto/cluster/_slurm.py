"""Jobs of a Slurm site: a loopback cluster of `up --local-slurm`, the site of this host, or one
that ssh reaches."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shlex
import sys
from typing import Any

from stretto.cluster import _agent, _loopback, _wake
from stretto.cluster import _slurm_output as output
from stretto.cluster import _slurm_script as script
from stretto.cluster._backend import OVER, Backend, Chips, Request, Row, State
from stretto.cluster._host import ClusterError, Host, Refused

SUBMIT_S, END_S, POLL_S = 60.0, 20.0, 0.1
SECRET, SECRET_BYTES = "STRETTO_SECRET", 32


class Slurm(Backend):

  name = "slurm"

  def __init__(self, host: Host, loopback: _loopback.Loopback | None = None) -> None:
    self.host, self.loopback = host, loopback
    self.components: list[script.Component] = []  # as files() has found them

  def about(self) -> str:
    version = output.version_of(self.host.ask(["sinfo", "--version"]))
    place = f"cluster {self.loopback.name} on this machine" if self.loopback else \
      f"the site of {self.host.name}" if self.host.name else "the site of this host"
    return f"Slurm {version}, {place}"

  def describe(self) -> dict[str, Any]:
    # Numbers of jobs begin at 1 in every loopback cluster, so a job says which one it is of.
    return {"backend": self.name, "host": self.host.name,
            "cluster": str(self.loopback.conf) if self.loopback else "",
            "identity": self.loopback.identity() if self.loopback else ""}

  def where_option(self) -> str:
    if self.host.name:
      return f" --host {shlex.quote(self.host.name)}"
    return _loopback.option(self.loopback) if self.loopback else ""

  def files(self, request: Request) -> dict[str, str]:
    kinds = output.gres_of(self.host.ask(["sinfo", "-h", "-N", "-o", output.NODES])) \
      if any(part.total for part in request.parts) else {}
    own = request.python or ("python3" if self.host.name else sys.executable)
    components = self.components = [component(part, kinds, own) for part in request.parts]
    # Nodes of a loopback cluster share an address; what Slurm reserves on each may be the same.
    resv = not self.loopback and output.has_reserved_ports(
      self.host.ask(["scontrol", "show", "config"]))
    return {"job.sh": script.text(request, components, not self.host.name, resv),
            "words.json": json.dumps(request.words) + "\n"}

  def words(self, request: Request) -> list[str]:
    return ["sbatch", "--parsable", "--export=ALL", f"--job-name={request.name}", "job.sh"]

  def submit(self, request: Request, folder: str) -> str:
    # Slurm keeps the environment for later starts; no command line and no file of ours has it.
    environment = {**request.secrets, SECRET: os.environ.get(SECRET)
                   or secrets.token_hex(SECRET_BYTES)}
    words = self.words(request)
    with self.awake(request.queue):
      done = self.host.run(words, environment=environment, folder=folder, timeout=SUBMIT_S)
    if done.code == 0:
      return output.job_number(done.out)
    # slurmctld may take a job whose sbatch has given up waiting.
    late = done.code == _agent.TIMED_OUT or any(t in done.err.lower() for t in output.LATE)
    kind = ClusterError if late else Refused
    raise kind(f"{words[0]} {self.host.where}: {done.reason}")

  def awake(self, queue: str) -> contextlib.AbstractContextManager[None]:
    """While it lasts, slurmctld of a loopback cluster is ready to start a job that comes."""
    if self.loopback is None or len(self.components) != 1:  # jobs of several parts wait longer
      return contextlib.nullcontext()
    options = [f"--partition={queue}"] if queue else []
    return _wake.until_submitted(self.loopback, [*options, *script.wants(self.components[0])])

  def numbers(self) -> dict[str, str]:
    out = self.host.ask(["squeue", "-h", "--me", "-o", output.FOLDERS])
    pairs = (line.split(output.SEPARATOR, 1) for line in out.splitlines()
             if output.SEPARATOR in line)
    # Of a heterogeneous job, N+0 and so on; N is what all commands take.
    return {os.path.basename(place): number.split("+")[0] for number, place in pairs}

  def withdraw(self, folder: str) -> bool:
    number = self.numbers().get(os.path.basename(folder))
    if number is None:
      return False  # it may still be on its way
    self.stop(number, folder)
    return self.until_over(number, folder, END_S, POLL_S)

  def state(self, job: str, folder: str) -> State:
    done = self.host.run(["squeue", "-h", "-j", job, "-t", "all", "-o", output.STATE])
    if done.code == 0:
      return output.states(done.out) or State(OVER)
    if any(text in (done.err + done.out).lower() for text in output.GONE):
      return State(OVER)
    raise ClusterError(f"squeue {self.host.where}: {done.reason}")

  def stop(self, job: str, folder: str) -> None:
    """Only the job of this folder: schedulers count from 1 again when they are set up anew."""
    found = self.host.run(["squeue", "-h", "-j", job, "-o", "%Z"])
    places = {os.path.basename(line) for line in found.out.splitlines() if line}
    if found.code == 0 and places and os.path.basename(folder) not in places:
      raise ClusterError(f"job {job} {self.host.where} is another one, which works in "
                         f"{min(found.out.splitlines())}; it is not ended")
    done = self.host.run(["scancel", job])
    if done.code != 0 and not any(t in done.err.lower() for t in output.GONE):
      raise ClusterError(f"scancel {self.host.where}: {done.reason}")

  def rows(self, everybody: bool) -> list[Row]:
    whose = [] if everybody else ["--me"]
    return output.rows(self.host.ask(["squeue", "-h", *whose, "-o", output.QUEUE]))

  def shell(self, job: str, folder: str, rank: int) -> list[str]:
    place = self.host.call("read_text", folder, f"progress/rank-{rank:05}.node")
    words = (place or "").split()
    if len(words) < 2:
      raise ClusterError(f"rank {rank}: it has not started; `stretto cluster ls` says what the job "
                         "waits for")
    node, number = words[:2]
    shell = "/bin/bash" if self.host.name else os.environ.get("SHELL", "/bin/bash")
    group = [f"--het-group={words[2]}"] if len(words) > 2 else []
    return ["srun", f"--jobid={number}", *group, "--overlap", "--pty", f"--nodelist={node}",
            "--nodes=1", "--ntasks=1", shell, "-i"]


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
