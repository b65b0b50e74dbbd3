"""A barrier that says which ranks are missing."""

from __future__ import annotations

import time

from stretto._errors import CommError

PAUSE_S = 0.005


def monitored_barrier(store, rank: int, size: int, name: str, timeout_s: float,
                      wait_all_ranks: bool) -> None:
  """Rank 0 waits for the others, and then lets them go. Keys are deleted by those who wait for
  them."""
  deadline = time.monotonic() + timeout_s
  if rank > 0:
    store.set(f"{name}, rank {rank}", b"1")
    if not came(store, f"{name}, go {rank}", deadline):
      raise CommError(f"monitored_barrier: rank {rank} has waited {timeout_s:g} s for rank 0, "
                      "which did not come, or misses another rank", 0)
    return
  missing = []
  for other in range(1, size):
    if not came(store, f"{name}, rank {other}", deadline):
      missing.append(other)
      if not wait_all_ranks:
        break
  if missing:
    ranks = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
    raise CommError(f"monitored_barrier: {ranks} did not come within {timeout_s:g} s", missing[0])
  for other in range(1, size):
    store.set(f"{name}, go {other}", b"1")


def came(store, key: str, deadline: float) -> bool:
  """Whether the key is there in time. Looks at least once."""
  while not store.check([key]):
    if time.monotonic() > deadline:
      return False
    time.sleep(PAUSE_S)
  store.delete_key(key)
  return True
