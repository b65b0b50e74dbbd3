"""Which processes form the next epoch of an elastic job, and with which ranks.

They agree on it through a store that outlives all of them: `stretto run --elastic` serves it, no
rank does. The keys:

  E/announced     a log: everybody who wants to be in epoch E
  E/members       the members of epoch E in rank order; the first proposal counts
  current         the last epoch whose members are known
  gone            a log, written by launchers: workers whose process has ended
  over            set by launchers when a rank has finished its work
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta

import torch.distributed as dist

from stretto._errors import CommError, InvalidArgumentError

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.005, 0.1  # between two looks into the store
REACH_S = 60.0  # for the first answer of the store


class StoreLost(CommError):
  """Ranks cannot form another epoch."""


@dataclass(frozen=True)
class Settings:
  address: str
  least: int
  most: int
  start: int = 1  # ranks that the first epoch waits for
  worker: str = ""
  grace_s: float = 30.0
  timeout_s: float = 600.0

  @staticmethod
  def from_environment() -> Settings | None:
    """None: the job is not elastic."""
    environment = os.environ
    if not environment.get("STRETTO_ELASTIC_STORE"):
      return None
    least, most = parse_range(environment.get("STRETTO_ELASTIC", "1"))
    return Settings(environment["STRETTO_ELASTIC_STORE"], least, most,
                    int(environment.get("STRETTO_ELASTIC_START", least)),
                    environment.get("STRETTO_ELASTIC_WORKER") or secrets.token_hex(8),
                    seconds("STRETTO_ELASTIC_GRACE", 30.0),
                    seconds("STRETTO_ELASTIC_TIMEOUT", 600.0))


def seconds(name: str, default: float) -> float:
  text = os.environ.get(name) or str(default)
  try:
    value = float(text)
  except ValueError:
    value = -1.0
  if value < 0:
    raise InvalidArgumentError(f"{name}: expected seconds, got '{text}'")
  return value


def parse_range(text: str) -> tuple[int, int]:
  """Reads MIN:MAX, or one number for both."""
  least, colon, most = text.partition(":")
  most = most if colon else least
  if not least.isdigit() or not most.isdigit() or not 1 <= int(least) <= int(most):
    raise InvalidArgumentError(f"expected MIN:MAX with numbers of ranks from 1 on, got '{text}'")
  return int(least), int(most)


@dataclass(frozen=True)
class Member:
  worker: str
  # The last epoch in which it had the state of the training, and its rank there. 0, -1: never.
  epoch: int = 0
  rank: int = -1


class Log:
  """A list in a store that any process appends to. An entry of a process that died while it wrote
  is missing."""

  def __init__(self, store, name: str):
    self._store, self._name = store, name
    self._known: dict[int, str] = {}

  def append(self, text: str) -> None:
    number = self._store.add(self._name, 1) - 1
    self._store.set(f"{self._name}/{number}", text)

  def entries(self) -> list[str]:
    for i in range(self._store.add(self._name, 0)):
      if i not in self._known and self._store.check([f"{self._name}/{i}"]):
        self._known[i] = self._store.get(f"{self._name}/{i}").decode()
    return [self._known[i] for i in sorted(self._known)]


def chosen(announced: Sequence[Member], previous: Sequence[Member], gone: Collection[str],
           settings: Settings, grace_over: bool) -> list[Member] | None:
  """The members of an epoch by rank; None while it is too early to say. Those with the newest state
  come first, in the order of their ranks, so that rank 0 is the lowest one that survived."""
  here = {m.worker: m for m in announced if m.worker not in gone}
  awaited = [m for m in previous if m.worker not in gone and m.worker not in here]
  missing = awaited or (not previous and len(here) < settings.start)
  if (missing and not grace_over) or len(here) < settings.least:
    return None
  order = sorted(here.values(), key=lambda m: (-m.epoch, m.rank, m.worker))
  return order[:settings.most]


class Epochs:
  """The part of one process. `store` has the methods of torch's stores."""

  def __init__(self, store, settings: Settings,
               clock: Callable[[], float] = time.monotonic):
    self.store, self.settings, self._clock = store, settings, clock
    self._gone = Log(store, "gone")
    self.number, self.members = 0, []  # of the epoch that this process is in
    self.me = Member(settings.worker)

  @property
  def rank(self) -> int:
    return [m.worker for m in self.members].index(self.me.worker)

  def join(self) -> None:
    """Waits until this process is a member of an epoch. Ends the process if the job is over before
    that, and raises CommError if too few ranks come."""
    current = int(self.store.get("current")) if self.store.check(["current"]) else 0
    number = max(self.number, current) + 1
    while True:
      members = self._agree(number)
      if any(m.worker == self.me.worker for m in members):
        self.number, self.members = number, members
        return
      number += 1  # too late for that one

  def _agree(self, number: int) -> list[Member]:
    announced = Log(self.store, f"{number}/announced")
    announced.append(json.dumps(asdict(self.me)))
    previous = self._members_of(number - 1)
    since, pause_s = None, SHORTEST_PAUSE_S
    while not self.store.check([f"{number}/members"]):
      here, gone = [read(text) for text in announced.entries()], set(self._gone.entries())
      if self.me.worker not in {m.worker for m in previous} and self.store.check(["over"]):
        sys.exit(0)
      # The others may train for hours before they come.
      if since is None and (not previous or {m.worker for m in here} & {
          m.worker for m in previous} or all(m.worker in gone for m in previous)):
        since = self._clock()
      waited_s = self._clock() - since if since is not None else 0.0
      members = chosen(here, previous, gone, self.settings,
                       since is not None and waited_s >= self.settings.grace_s)
      if members is not None:
        self.store.compare_set(f"{number}/members", "", json.dumps([asdict(m) for m in members]))
      elif waited_s > self.settings.timeout_s:
        count = len({m.worker for m in here} - gone)
        raise StoreLost(f"elastic: {count} ranks are there, and {self.settings.least} are needed; "
                        f"no other came within {self.settings.timeout_s:g} s")
      else:
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    self.store.set("current", str(number))
    return self._members_of(number)

  def _members_of(self, number: int) -> list[Member]:
    if number == 0:
      return []
    return [Member(**m) for m in json.loads(self.store.get(f"{number}/members"))]

  def has_state(self) -> None:
    """From now on this process has the state of the training."""
    self.me = Member(self.me.worker, self.number, self.rank)

  def newcomers(self) -> bool:
    """Whether processes wait that would find a place in the next epoch."""
    if len(self.members) >= self.settings.most:
      return False
    waiting = Log(self.store, f"{self.number + 1}/announced").entries()
    return bool({read(text).worker for text in waiting} - set(self._gone.entries()))

  def lost(self) -> str:
    """A member whose process has ended, in words; empty: there is none."""
    gone = set(self._gone.entries())
    lost = [rank for rank, m in enumerate(self.members) if m.worker in gone]
    return f"the process of rank {lost[0]} has ended" if lost else ""


def read(text: str) -> Member:
  return Member(**json.loads(text))


class Guarded:
  """A store whose errors say what is lost."""

  def __init__(self, store, address: str):
    self._store, self._address = store, address

  def __getattr__(self, name: str):
    method = getattr(self._store, name)

    def call(*arguments):
      try:
        return method(*arguments)
      except RuntimeError as error:
        raise StoreLost(f"elastic: the store at {self._address} is lost: {error}; the command "
                        "`stretto run --elastic` that serves it has to outlive the ranks") \
            from error

    return call


def connect(address: str, serves: bool = False, listener: int | None = None) -> dist.TCPStore:
  """`listener` is the descriptor of a socket to serve at."""
  host, _, port = address.rpartition(":")
  return dist.TCPStore(host, int(port), is_master=serves, wait_for_workers=False,
                       timeout=timedelta(seconds=REACH_S), master_listen_fd=listener)


EPOCHS: Epochs | None = None


def epochs() -> Epochs | None:
  """This process's part in an elastic job; None if the job is not elastic."""
  global EPOCHS
  settings = Settings.from_environment()
  if EPOCHS is None and settings is not None:
    try:
      store = connect(settings.address)
    except RuntimeError as error:
      raise StoreLost(f"elastic: no store at {settings.address}: {error}") from error
    EPOCHS = Epochs(Guarded(store, settings.address), settings)
  return EPOCHS


def torch_store() -> dist.Store:
  """Where the ranks of the epoch exchange their addresses."""
  return dist.PrefixStore(f"{EPOCHS.number}/ranks", EPOCHS.store._store)
