"""What a rule is, and what it sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Facts
from stretto.migrate._training import Training


@dataclass(frozen=True)
class Script:
  facts: Facts
  training: Training

  def is_in_dataset(self, scope: str) -> bool:
    """Methods of datasets run in the worker processes of loaders, which belong to no rank."""
    if scope.endswith(".__init__"):
      return False
    owner = self.facts.functions[scope].owner if scope in self.facts.functions else ""
    return bool(owner) and any(self.facts.inherits(owner, base)
                               for base in ("Dataset", "IterableDataset", "Sampler"))


@dataclass(frozen=True)
class Rule:
  name: str
  matches: str
  does: str
  reports: str  # what it leaves to a person; "" if nothing
  run: Callable[[Script, Edits], None]
