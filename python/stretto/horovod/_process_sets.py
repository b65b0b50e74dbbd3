"""Process sets: subsets of ranks with their own operations."""

from __future__ import annotations

from collections.abc import Sequence

from stretto._checks import are_whole, expected
from stretto._errors import InvalidArgumentError
from stretto.horovod._members import Members
from stretto.horovod._state import job


class ProcessSet:
  """Some ranks, which can have operations of their own.

  It can be used after `add_process_set`, or `init(process_sets=[...])`.

  Args:
    ranks: its members, ranks of the job.

  Attributes:
    ranks: its members, sorted; None for all ranks.
    process_set_id: its number; None before it is added.
  """

  def __init__(self, ranks: Sequence[int]):
    try:
      self.ranks: list[int] | None = sorted(ranks)
    except TypeError:
      raise expected("ProcessSet: ranks", "a list of ranks", ranks) from None
    if not are_whole(self.ranks):
      raise expected("ProcessSet: ranks", "a list of ranks", ranks)
    self.process_set_id: int | None = None

  def included(self) -> bool:
    """Whether this rank is a member.

    Returns:
      True if it is.
    """
    return self._members().included

  def rank(self) -> int:
    """The number of this rank among the members.

    Returns:
      A number from 0, or -1 if this rank is no member.
    """
    members = self._members()
    return members.ranks.index(job().place.rank) if members.included else -1

  def size(self) -> int:
    """The number of members.

    Returns:
      A number from 1.
    """
    return self._members().size

  def _members(self) -> Members:
    members = job().sets.get(self.process_set_id)
    if members is None:
      raise InvalidArgumentError(f"{self}: call hvd.add_process_set() first")
    return members

  def __repr__(self) -> str:
    return f"ProcessSet({self.ranks}, id {self.process_set_id})"


class Everyone(ProcessSet):

  def __init__(self):
    self.ranks, self.process_set_id = None, 0


global_process_set = Everyone()


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
  """Adds a process set. Every rank of the job calls it, in the same order.

  Args:
    process_set: the set, or its ranks.

  Returns:
    The set, ready for use.

  Raises:
    InvalidArgumentError: there is a set of these ranks already, or they are no ranks of the job.
  """
  if not isinstance(process_set, ProcessSet):
    process_set = ProcessSet(process_set)
  state = job()
  size, ranks = state.place.size, process_set.ranks
  if process_set.process_set_id is None and (
      not ranks or len(set(ranks)) != len(ranks) or not 0 <= ranks[0] <= ranks[-1] < size):
    raise InvalidArgumentError(
        f"add_process_set: expected different ranks from 0 to {size - 1}, got {ranks}")
  if process_set.process_set_id in state.sets:
    raise InvalidArgumentError(f"{process_set} was added before")
  for id_, members in state.sets.items():
    if members.ranks == process_set.ranks:
      raise InvalidArgumentError(
          f"the process set {id_} has these ranks already: {process_set.ranks}")
  process_set.process_set_id, state.next_set = state.next_set, state.next_set + 1
  state.sets[process_set.process_set_id] = Members(process_set.ranks)
  return process_set


def remove_process_set(process_set: ProcessSet) -> bool:
  """Removes a process set. Every rank of the job calls it.

  Args:
    process_set: a set that was added.

  Returns:
    False if there is no such set.
  """
  if not isinstance(process_set, ProcessSet):
    raise expected("remove_process_set: process_set", "a ProcessSet", process_set)
  members = job().sets.get(process_set.process_set_id) if process_set.process_set_id else None
  if members is None:
    return False
  del job().sets[process_set.process_set_id]
  process_set.process_set_id = None
  members.leave()
  return True


def process_set_ids() -> list[int]:
  """The numbers of all process sets.

  Returns:
    Their numbers, the oldest first; 0 is the set of all ranks.
  """
  return list(job().sets)


def members_of(process_set: ProcessSet | None) -> Members:
  """The members for an operation of this rank."""
  if process_set is None:
    return job().everyone
  try:
    members = process_set._members()
  except AttributeError:
    if isinstance(process_set, ProcessSet):
      raise
    raise expected("process_set", "a ProcessSet, or None for all ranks", process_set) from None
  if not members.included:
    raise InvalidArgumentError(f"rank {job().place.rank} is not a member of {process_set}")
  return members
