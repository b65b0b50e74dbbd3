from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import last
from stretto.migrate._rule import Rule, Script

DRAWS = ("rand", "randn", "randint", "randperm", "random_split", "train_test_split", "shuffle",
         "permutation", "choice", "sample", "normal")
SEEDS = ("manual_seed", "seed_everything", "set_seed", "seed_all", "manual_seed_all")


def seeds(script: Script) -> list[cst.Call]:
  return [call for call in script.facts.all(cst.Call)
          if last(script.facts.called(call)) in SEEDS
          and "Generator" not in script.facts.called(call)]


def uses_numpy(script: Script) -> bool:
  return any(name.partition(".")[0] in ("numpy", "sklearn", "pandas", "scipy")
             for name in script.facts.imports.values())


def differing(script: Script) -> list[cst.Call]:
  """Random numbers, or seeds, that do not come from the states that ranks share."""
  facts, found = script.facts, []
  for call in facts.all(cst.Call):
    name = facts.called(call)
    if name in ("numpy.random.default_rng", "numpy.random.RandomState", "random.Random",
                "random.SystemRandom", "torch.seed", "os.urandom", "uuid.uuid4",
                "numpy.random.seed", "random.seed") and not call.args:
      found.append(call)
    elif last(name) in (*SEEDS, "seed", "default_rng", "RandomState", "Random") and any(
        last(facts.called(c)) in ("time", "time_ns", "urandom", "getpid", "seed", "now")
        for arg in call.args for c in facts.within(arg.value, cst.Call)):
      found.append(call)
  return found


def run(script: Script, edits: Edits) -> None:
  facts, training = script.facts, script.training
  suffix = "_numpy" if uses_numpy(script) else ""
  # A script may set a seed only at times, or not for all of its generators.
  edits.helpers.add("same_randomness" + suffix)
  for call in facts.all(cst.Call):
    if last(facts.called(call)) in DRAWS and not facts.scope(call):
      edits.touched.append(call)  # so that it comes behind start_ranks()
  for call in differing(script):
    edits.leave(call, "each rank gets random numbers of its own here: give it a seed, or share "
                "what it draws by dist.broadcast_object_list()")
  if not seeds(script):
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
