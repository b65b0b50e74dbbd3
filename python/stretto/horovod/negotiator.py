"""Which tensors are ready on every rank, without a coordinator.

Ranks submit named operations in any order. Every round all ranks AND their ready bits, one bit per
name, in one small all-reduce; what is left is ready everywhere and starts in the order of its bit.
Bits are handed out once, the first time a name turns up anywhere, in an extra exchange that the
same all-reduce announces. Rounds take place while a rank has something pending; a rank that has
nothing keeps the others waiting, and they could not go on without it anyway.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from stretto import comm

# Words of a round's vector before the ready bits.
kNothingNew, kNobodyStalls, kLeaving, kHeader = 0, 1, 2, 3
# Between rounds in which nothing was ready everywhere.
kFirstPauseS, kLongestPauseS = 0.0005, 0.02


class Negotiator:
  """Of one thread. `describe(name)` says what is submitted under a name: ranks have to agree."""

  def __init__(self, engine: comm.Engine, group: int, describe: Callable[[str], str]):
    self.engine_, self.group_, self.describe_ = engine, group, describe
    self.bits_: dict[str, int] = {}
    self.names_: list[str] = []
    self.descriptions_: list[dict[int, str]] = []
    self.pause_s = kFirstPauseS
    self.everyone_: np.ndarray | None = None

  def round(self, ready: set[str], joined: bool, leaving: bool,
            stalled: bool) -> tuple[list[str], bool]:
    """The names that are ready everywhere, in an order all ranks share, and whether all ranks are
    leaving. A rank that has `joined` lacks nothing. When any rank is stalled, missing() is
    up to date afterwards."""
    news = sorted(name for name in ready if name not in self.bits_)
    own = np.zeros(kHeader + (len(self.names_) + 63) // 64, np.uint64)
    own[:kHeader] = [not news, not stalled, leaving]
    if joined:
      own[kHeader:] = np.uint64(0xFFFFFFFFFFFFFFFF)
    for name in ready - set(news):
      bit = self.bits_[name]
      own[kHeader + bit // 64] |= np.uint64(1 << bit % 64)
    words = own.copy()
    self.engine_.all_reduce(words, "and", self.group_)
    found = [name for bit, name in enumerate(self.names_) if is_set(words, bit)]
    if not words[kNobodyStalls]:
      self.everyone_ = np.zeros((self.engine_.size, own.size), np.uint64)
      self.engine_.all_gather(self.everyone_, own, self.group_)
    if not words[kNothingNew]:
      self.learn(news)
    progress = bool(found) or not words[kNothingNew]
    self.pause_s = kFirstPauseS if progress else min(self.pause_s * 2, kLongestPauseS)
    return found, bool(words[kLeaving])

  def missing(self, name: str) -> list[int]:
    """Ranks that had not submitted the name when the last stall was looked into."""
    bit = self.bits_.get(name)
    if bit is None or self.everyone_ is None or not self.everyone_.shape[1] > kHeader + bit // 64:
      return []
    return [rank for rank, words in enumerate(self.everyone_) if not is_set(words, bit)]

  def learn(self, news: list[str]) -> None:
    """Every rank tells what it has that is new, and numbers everything in the same order."""
    own = np.frombuffer(json.dumps({n: self.describe_(n) for n in news}).encode(), np.uint8)
    sizes = np.zeros(self.engine_.size, np.int64)
    self.engine_.all_gather(sizes, np.array([own.size], np.int64), self.group_)
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[:own.size] = own
    everything = np.zeros((self.engine_.size, padded.size), np.uint8)
    self.engine_.all_gather(everything, padded, self.group_)
    for rank, size in enumerate(sizes):
      for name, text in json.loads(everything[rank, :int(size)].tobytes()).items():
        if name not in self.bits_:
          self.bits_[name] = len(self.names_)
          self.names_.append(name)
          self.descriptions_.append({})
        self.descriptions_[self.bits_[name]][rank] = text

  def description(self, name: str) -> str:
    """What the ranks have said of the name; throws ValueError when they disagree."""
    said = self.descriptions_[self.bits_[name]]
    if len(set(said.values())) > 1:
      raise ValueError(f"'{name}' differs between ranks: " + "; ".join(
          f"rank {rank}: {text}" for rank, text in sorted(said.items())))
    return next(iter(said.values()))


def is_set(words: np.ndarray, bit: int) -> bool:
  return bool(int(words[kHeader + bit // 64]) >> (bit % 64) & 1)
