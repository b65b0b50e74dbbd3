from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import PASS_ON, argument
from stretto.migrate._rule import Rule, Script
from stretto.migrate._rules._sampler import is_stream


def itself(script: Script, node: cst.BaseExpression) -> cst.BaseExpression:
  """The loader behind the name of a progress bar."""
  facts = script.facts
  made = facts.assigned.get(facts.key(node) or ("", ""), ())
  values = [value for _, value in made if isinstance(value, cst.Call) and value.args
            and facts.last_name(value) in PASS_ON and facts.scope(value) == facts.scope(node)]
  if not values or len(values) < len(made):
    return node
  inner = values[-1]
  while isinstance(inner, cst.Call) and inner.args and facts.last_name(inner) in PASS_ON:
    inner = inner.args[0].value
  return itself(script, inner)


def run(script: Script, edits: Edits) -> None:
  facts, training = script.facts, script.training
  streams = {number for number, call in training.loaders.items()
             if (dataset := argument(call, "dataset", 0)) is not None
             and is_stream(script, dataset)}
  shared = training.fed - streams
  for loop in facts.all(cst.For):
    for source in map(lambda node: itself(script, node), training.sources(loop)):
      if not facts.held(source) & shared:
        continue
      inner = any(id(point) in {id(n) for n in facts.within(loop, cst.Call)}
                  for point in training.points)
      scope = facts.functions.get(facts.scope(loop))
      yields = scope is not None and any(facts.within(scope.node.body, cst.Yield))
      if not inner and not yields:
        continue
      if facts.key(source) is None:
        edits.leave(loop, "give this loader a name, and call its sampler's set_epoch() before "
                    "each pass")
        continue
      epoch = training.epoch_name(loop)
      code = facts.code(source)
      if epoch is None:
        edits.insert_before(loop, f"next_epoch({code})", "next_epoch")
      else:
        edits.insert_before(loop, f"set_epoch({code}, {epoch})", "set_epoch")
      edits.did(loop, "the order of the samples changes in each epoch (set_epoch)")
  for call in facts.calls("iter"):
    source = call.args[0].value if call.args else None
    if source is None or not facts.held(source) & shared or facts.key(source) is None or \
        isinstance(facts.parents.get(call), cst.For):
      continue
    if isinstance(facts.statement(call), cst.SimpleStatementLine):
      edits.insert_before(call, f"next_epoch({facts.code(source)})", "next_epoch")
      edits.did(call, "the order of the samples changes in each pass (set_epoch)")


RULE = Rule("epoch", "the loop over the batches of a loader that the ranks share",
            "calls set_epoch() of the sampler before each pass",
            "loaders that are made in the head of a loop", run)
