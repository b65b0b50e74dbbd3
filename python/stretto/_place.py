"""Where a rank stands in its job."""

from __future__ import annotations

from dataclasses import dataclass

from stretto import comm


@dataclass(frozen=True)
class Place:
  rank: int
  size: int
  local_rank: int  # among the ranks of its host
  local_size: int
  cross_rank: int  # among the ranks with the same local rank, one per host
  cross_size: int
  homogeneous: bool  # hosts have equally many ranks

  @staticmethod
  def of(engine: comm.Engine) -> Place:
    hosts = engine.native.hosts
    host = next(i for i, ranks in enumerate(hosts) if engine.rank in ranks)
    local = hosts[host].index(engine.rank)
    return Place(engine.rank, engine.size, local, len(hosts[host]),
                 sum(len(ranks) > local for ranks in hosts[:host]),
                 sum(len(ranks) > local for ranks in hosts),
                 len({len(ranks) for ranks in hosts}) == 1)
