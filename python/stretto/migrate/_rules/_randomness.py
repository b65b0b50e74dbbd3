from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import last
from stretto.migrate._rule import Rule, Script

SEEDS = ("manual_seed", "seed_everything", "set_seed", "seed_all", "manual_seed_all")


def seeds(script: Script) -> list[cst.Call]:
  return [call for call in script.facts.all(cst.Call)
          if last(script.facts.called(call)) in SEEDS
          and "Generator" not in script.facts.called(call)]


def uses_numpy(script: Script) -> bool:
  return any(name == "numpy" or name.startswith("numpy.")
             for name in script.facts.imports.values())


def run(script: Script, edits: Edits) -> None:
  facts, training = script.facts, script.training
  suffix = "_numpy" if uses_numpy(script) else ""
  if not seeds(script):
    edits.helpers.add("same_randomness" + suffix)
    edits.note(facts.module, "the script sets no seed: all ranks begin with the random state of "
               "rank 0")
  if not training.batch_loops:
    return
  loop = training.epoch_loop(training.batch_loops[0])
  inside = {id(node) for node in facts.within(loop, cst.CSTNode)}
  if any(id(wrap.statement) in inside for wrap in training.wraps):
    edits.leave(loop, "models are made inside of this loop: where dropout or augmentation should "
                "differ between ranks, seed each rank with another number behind the wrapping")
    return
  edits.insert_before(loop, "own_randomness()", "own_randomness" + suffix)
  edits.did(loop, "from here on each rank draws random numbers of its own; rank 0's are those of "
            "the script")


RULE = Rule("randomness", "seeds, or none, and the loop over epochs",
            "prepares all ranks from the same random state, then lets each draw its own",
            "models that are made inside of the loop over epochs", run)
