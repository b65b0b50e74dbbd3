"""torchrun keeps one store for all its attempts to run a job, without a word about which of them a
key is from: ranks that were started again would read the addresses of ranks that are dead. The
number of restarts that torchrun tells a rank differs between hosts. So ranks agree on a prefix for
the keys of an attempt."""

from __future__ import annotations

import json
import os
import secrets
import time

from stretto._errors import CommError

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.001, 0.1


def needed() -> bool:
  """Whether the store may hold keys of an earlier attempt."""
  return "TORCHELASTIC_RESTART_COUNT" in os.environ


def agree(store, rank: int, size: int, timeout_s: float) -> str:
  """The prefix, the same on all ranks and new in each attempt. Rank 0 makes a token, every other
  rank answers it with a token of its own, and goes on when rank 0 shows this answer. So nobody
  goes on with what the ranks of an earlier attempt have left, whoever comes first."""
  mine = secrets.token_hex(8)
  stop, pause_s, answered = time.monotonic() + timeout_s, SHORTEST_PAUSE_S, ""
  if rank == 0:
    store.set("attempt/token", mine)
  while True:
    token = mine if rank == 0 else text(store, "attempt/token")
    if rank != 0 and token != answered:
      store.set(f"attempt/{rank}", f"{token} {mine}")
      answered = token
    if rank == 0 and not missing(store, token, rank, size):
      answers = [text(store, f"attempt/{r}").split()[1] for r in range(1, size)]
      store.set("attempt/members", json.dumps([mine, *answers]))
      return f"attempt {mine}"
    members = json.loads(text(store, "attempt/members") or "[]") if rank != 0 else []
    if len(members) == size and members[rank] == mine:
      return f"attempt {members[0]}"
    if time.monotonic() > stop:
      late = missing(store, token, rank, size) or [0]
      raise CommError(f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))} did not "
                      f"start within {timeout_s:g} s (STRETTO_CONNECT_TIMEOUT)", late[0])
    time.sleep(pause_s)
    pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def missing(store, token: str, rank: int, size: int) -> list[int]:
  """Ranks that have not answered the token; without one, only rank 0."""
  if not token:
    return [0]
  return [r for r in range(1, size)
          if r != rank and not text(store, f"attempt/{r}").startswith(f"{token} ")]


def text(store, key: str) -> str:
  return store.get(key).decode() if store.check([key]) else ""
