from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import argument
from stretto.migrate._rule import Rule, Script
from stretto.migrate._rules._checkpoint import HEAD


def run(script: Script, edits: Edits) -> None:
  facts = script.facts
  for call in facts.all(cst.Call):
    scope = facts.scope(call)
    if script.is_in_dataset(scope):
      continue
    if isinstance(call.func, cst.Name) and call.func.value == "print" and \
        "print" not in facts.functions:
      edits.rename_call(call, "print_once")
    elif facts.last_name(call) in ("tqdm", "trange") and "tqdm" in facts.called(call) and \
        argument(call, "disable") is None:
      extra = cst.Arg(cst.parse_expression("dist.get_rank() > 0"), keyword=cst.Name("disable"),
                      equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
      edits.change(call, lambda current, extra=extra: current.with_changes(
          args=[*current.args, extra]), "start_ranks")
      edits.did(call, "rank 0 shows the progress alone")
    elif facts.called(call) in ("pprint.pprint", "torchinfo.summary", "torchsummary.summary",
                                "matplotlib.pyplot.show") and \
        isinstance(facts.parents.get(call), cst.Expr):
      edits.put_under(call, HEAD)
  printed = [c for c in facts.all(cst.Call) if isinstance(c.func, cst.Name)
             and c.func.value == "print"]
  if printed and "print_once" in edits.helpers:
    edits.did(printed[0], "rank 0 prints alone (print_once)")


RULE = Rule("output", "print(), tqdm, logging", "lets rank 0 print and show progress alone", "",
            run)
