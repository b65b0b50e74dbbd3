"""The cases, as one visible list, and the lower bounds they are compared with."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.comm.network import Network

KB, MB = 1024, 1024 * 1024


@dataclass(frozen=True)
class Work:
  """What every rank does in one turn: `operations` all-reduces of `size_bytes` of fp32, one after
  the other, all at once, or each after 2 ms of computation, which is not counted; or broadcasts
  from rank 0; or training steps."""
  kind: str = "each"  # "each", "burst", "apart", "broadcast", "steps", "cut"
  size_bytes: int = 4
  operations: int = 1
  model: str = ""  # steps: a row of training.MODELS
  cut_rail: int = -1  # cut: pulled while the operation runs


@dataclass(frozen=True)
class Case:
  name: str
  network: Network
  placement: tuple[int, ...]  # host of every rank
  work: Work
  peers: tuple[str, ...]  # rows of bench.comm.peers; steps: with /wire format
  rounds: int = 7
  warm_up: int = 1  # rounds that are not counted
  about: str = ""

  def bound_bytes(self) -> float:
    """No all-reduce of fp32 moves fewer bytes through the busiest card of a host, per direction:
    sums are formed inside hosts, and m hosts exchange shards, 2 (m - 1) / m of the tensor. A
    broadcast comes whole into every host but one."""
    hosts = len(set(self.placement))
    if self.work.kind == "broadcast":
      return self.work.size_bytes if hosts > 1 else 0
    return 2 * (hosts - 1) / hosts * self.work.size_bytes

  def bus_mbit(self, seconds: float) -> float:
    """Bandwidth as other benches count it: 2 (n - 1) / n of the tensor, or a broadcast's tensor,
    over the time."""
    if self.work.kind == "broadcast":
      return self.work.size_bytes * 8 / seconds / 1e6
    ranks = len(self.placement)
    return 2 * (ranks - 1) / ranks * self.work.size_bytes * 8 / seconds / 1e6


ALL = ("gloo", "gloo-tuned", "openmpi", "stretto", "stretto-core")
NO_TUNED = ("gloo", "openmpi", "stretto", "stretto-core")
MAC = ("stretto-mac-on", "stretto-mac-off")
TORCH = ("gloo", "gloo-tuned", "stretto")
# fp16 is torch's own hook over Gloo, Stretto's codec over Stretto.
WIRES = ("gloo", "gloo/fp16", "stretto", "stretto/fp16", "stretto/int8")


def contiguous(hosts: int, ranks: int) -> tuple[int, ...]:
  return tuple(h for h in range(hosts) for _ in range(ranks))


def interleaved(hosts: int, ranks: int) -> tuple[int, ...]:
  return tuple(range(hosts)) * ranks


def small() -> list[Case]:
  two, four = contiguous(2, 1), contiguous(2, 2)
  network = Network(2)
  return [
      Case("4 B on 2 hosts", network, two, Work("each", 4, 300), NO_TUNED, 9),
      Case("4 KB on 2 hosts", network, two, Work("each", 4 * KB, 300), NO_TUNED, 9),
      Case("200 x 256 B at once on 2 hosts", network, two, Work("burst", 256, 200), NO_TUNED, 9),
      Case("200 x 4 KB at once on 2 hosts", network, two, Work("burst", 4 * KB, 200), NO_TUNED, 9),
      Case("4 B apart on 2 hosts", network, two, Work("apart", 4, 100), NO_TUNED, 9),
      Case("4 KB apart on 2 hosts", network, two, Work("apart", 4 * KB, 100), NO_TUNED, 9),
      Case("64 KB apart on 2 hosts", network, two, Work("apart", 64 * KB, 100), NO_TUNED, 9),
      Case("4 B on 2 x 2", network, four, Work("each", 4, 100), NO_TUNED, 9),
      Case("4 KB on 2 x 2", network, four, Work("each", 4 * KB, 100), NO_TUNED, 9),
      Case("64 KB on 2 x 2", network, four, Work("each", 64 * KB, 50), NO_TUNED, 9),
      Case("200 x 256 B at once on 2 x 2", network, four, Work("burst", 256, 200), NO_TUNED, 9),
      Case("200 x 4 KB at once on 2 x 2", network, four, Work("burst", 4 * KB, 200), NO_TUNED, 9),
      Case("200 x 64 KB at once on 2 x 2", network, four, Work("burst", 64 * KB, 200), NO_TUNED,
           5),
  ]


def large() -> list[Case]:
  return [
      Case("16 MB on 2 hosts", Network(2), contiguous(2, 1), Work("each", 16 * MB, 3), ALL),
      Case("64 MB on 2 hosts", Network(2), contiguous(2, 1), Work("each", 64 * MB, 1), ALL),
      Case("16 MB on 2 x 2", Network(2), contiguous(2, 2), Work("each", 16 * MB, 2), ALL),
      Case("16 MB on 2 x 2 interleaved", Network(2), interleaved(2, 2),
           Work("each", 16 * MB, 2), ALL),
      Case("16 MB on 4 x 2", Network(4), contiguous(4, 2), Work("each", 16 * MB, 1), NO_TUNED,
           5),
      Case("16 MB on 8 hosts", Network(8), contiguous(8, 1), Work("each", 16 * MB, 1), NO_TUNED,
           5),
  ]


def broadcasts() -> list[Case]:
  """As a script sends its model to all ranks before it trains."""
  cases = []
  for hosts in (4, 8):
    for mb in (1, 16):
      cases.append(Case(f"broadcast of {mb} MB on {hosts} hosts", Network(hosts),
                        contiguous(hosts, 1), Work("broadcast", mb * MB, 1), NO_TUNED, 9))
  return cases


def links() -> list[Case]:
  capped = Network(2, flow_mbit=250)
  rails = Network(2, rails_mbit=(1000, 200))
  two = contiguous(2, 1)
  return [
      Case("32 MB at 250 Mbit per flow", capped, two, Work("each", 32 * MB, 1), TORCH, 5),
      Case("64 MB on rails of 1000 and 200 Mbit", rails, two, Work("each", 64 * MB, 1),
           ("gloo", "gloo-tuned", "stretto"), 5),
      Case("64 MB while a rail is cut", rails, two,
           Work("cut", 64 * MB, 1, cut_rail=1), ("gloo-tuned", "stretto"), 1),
  ]


def training() -> list[Case]:
  two = contiguous(2, 1)
  cases = []
  for mbit in (200, 1000):
    network = Network(2, rails_mbit=(mbit,))
    steps = 1 if mbit < 1000 else 3
    cases.append(Case(f"DDP 25 M parameters {mbit} Mbit", network, two,
                      Work("steps", operations=steps, model="resnet50-sized"), WIRES, 5))
    cases.append(Case(f"DDP convnet on digits {mbit} Mbit", network, two,
                      Work("steps", operations=5 * steps, model="digits"), WIRES, 5))
  cases.append(Case("DDP convnet on digits 2 x 2 1000 Mbit", Network(2), contiguous(2, 2),
                    Work("steps", operations=5, model="digits"), WIRES, 5))
  cases.append(Case("DDP convnet on digits unshaped", Network(2, rails_mbit=(0,)), two,
                    Work("steps", operations=10, model="digits"), ("gloo", "stretto"), 9))
  return cases


# Rounds in which Stretto has tried the first settings of a new job.
TUNED = 40


def processor() -> list[Case]:
  """Cards without a limit: what processors, copies and sums allow."""
  network, two = Network(2, rails_mbit=(0,)), contiguous(2, 1)
  peers = ("gloo", "gloo-tuned", "openmpi", "openmpi-tuned", "stretto", "stretto-core")
  return [Case(f"{mb} MB unshaped", network, two, Work("each", mb * MB, operations), peers, 25,
               warm_up=TUNED)
          for mb, operations in ((1, 50), (4, 20), (16, 5), (64, 2))]


def tags() -> list[Case]:
  """What tags on frames cost on links of several speeds."""
  return [Case(f"64 MB at {mbit / 1000:g} Gbit", Network(2, rails_mbit=(mbit,)), contiguous(2, 1),
               Work("each", 64 * MB, 2), MAC) for mbit in (2500, 5000, 10_000)]


@dataclass(frozen=True)
class Group:
  name: str
  cases: list[Case] = field(default_factory=list)


GROUPS = (Group("small", small()), Group("large", large()),
           Group("broadcasts", broadcasts()), Group("links", links()),
           Group("training", training()), Group("processor", processor()),
           Group("tags", tags()))


def select(words: str) -> list[Case]:
  """Cases by group names and parts of case names, comma-separated; "all" for every one."""
  chosen: list[Case] = []
  for word in words.split(","):
    found = [case for group in GROUPS for case in group.cases
             if word in ("all", group.name) or word in case.name]
    if not found:
      raise ValueError(f"no case '{word}'; groups: " + ", ".join(g.name for g in GROUPS))
    chosen += [case for case in found if case not in chosen]
  return chosen
