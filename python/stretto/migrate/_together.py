"""The last look at what the rules have asked for: ranks that meet in a collective must all come."""

from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Facts

WHY = ("all ranks have to run this, as they add up or wait in it: let rank 0 do its part behind "
       "it, under `if dist.get_rank() == 0:`")


def meeting_functions(facts: Facts, edits: Edits) -> set[str]:
  """The functions of the script in which ranks meet."""
  nodes = [*edits.meetings, *edits.shared.values()]
  found = {facts.scope(node) for node in nodes} - {""}
  calls = [(scope, call) for call in facts.all(cst.Call) if (scope := facts.scope(call))]
  before = -1
  while len(found) != before:
    before = len(found)
    found |= {scope for scope, call in calls
              if any(f.name in found for f in facts.local_functions(call))}
  return found


def settle(facts: Facts, edits: Edits) -> None:
  """What one rank runs alone must have no collective: values in it stay the rank's own, and other
  statements go back to all ranks."""
  functions = meeting_functions(facts, edits)
  for under in list(edits.under):
    inside = {id(node) for node in facts.within(under.statement, cst.CSTNode)}
    calls = [call for call in facts.within(under.statement, cst.Call)
             if any(f.name in functions for f in facts.local_functions(call))]
    if calls or any(id(node) in inside and (node is not under.statement)
                    for node in edits.meetings):
      edits.refuse(under, WHY)
      continue
    for node in [n for n in edits.shared.values() if id(n) in inside]:
      edits.apart(node)
      line = facts.line(node)
      edits.done = [f for f in edits.done if (f.line, f.rule) != (line, "metrics")]
      edits.rule = under.rule
      edits.note(node, f"{facts.code(node)} is that of rank 0's own samples here")
