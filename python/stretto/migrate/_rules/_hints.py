from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import argument
from stretto.migrate._rule import Rule, Script


def run(script: Script, edits: Edits) -> None:
  facts, training = script.facts, script.training
  for number, call in training.loaders.items():
    if number in training.fed:
      size = argument(call, "batch_size", 1)
      shown = facts.code(size) if size is not None else "its batch size"
      edits.note(call, f"{shown} is now per rank, and a step sees it times the ranks: divide it by "
                 "the ranks to train as before, or raise the learning rate with it")
  for loop in training.batch_loops:
    for node in facts.within(loop, cst.If):
      steps = any(facts.last_name(c) == "step" for c in facts.within(node, cst.Call))
      if steps and any(facts.within(node.test, cst.Modulo)):
        edits.note(node, "gradients are averaged in each pass, not only when the optimizer steps: "
                   "`with model.no_sync():` around the others is faster and gives the same")
        break


RULE = Rule("hints", "batch sizes, learning rates, accumulated gradients",
            "changes nothing: notes say what another number of ranks means", "", run)
