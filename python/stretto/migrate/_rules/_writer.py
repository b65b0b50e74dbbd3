from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import argument
from stretto.migrate._rule import Rule, Script
from stretto.migrate._rules._checkpoint import HEAD

MODULES = ("wandb", "mlflow", "neptune", "comet_ml", "aim")
CLASSES = ("SummaryWriter", "CSVLogger", "Run", "Experiment", "Task")


def run(script: Script, edits: Edits) -> None:
  facts = script.facts
  made = {id(call) for call in facts.all(cst.Call)
          if facts.last_name(call) == "SummaryWriter" or facts.called(call) in (
              "wandb.init", "mlflow.start_run", "aim.Run")}
  for node in facts.all(cst.Attribute):
    parent = facts.parents.get(node)
    if isinstance(parent, cst.Call) and parent.func is node or isinstance(parent, cst.Attribute):
      continue  # calls are looked at below; of a.b.c the whole
    if facts.dotted(node).startswith(("wandb.config", "wandb.run", "mlflow.active_run")) or \
        facts.held(node.value) & made:
      edits.leave(node, f"only rank 0 has {facts.code(node)}: share what it says by "
                  "dist.broadcast_object_list()")
  for call in facts.all(cst.Call):
    parent = facts.parents.get(call)
    if id(call) in made and isinstance(parent, (cst.Assign, cst.AnnAssign)):
      edits.change(call, lambda current: cst.IfExp(
          test=cst.parse_expression("dist.get_rank() == 0"), body=current,
          orelse=cst.Name("None")))
      edits.did(call, "rank 0 logs alone")
      continue
    whole = facts.called(call).partition(".")[0] in MODULES
    held = isinstance(call.func, cst.Attribute) and facts.held(call.func.value) & made
    if not whole and not held:
      continue
    if argument(call, "disable") is None and isinstance(parent, cst.Expr) and \
        edits.put_under(call, HEAD):
      edits.did(call, "rank 0 logs alone")
    else:
      edits.leave(call, "every rank logs here: let rank 0 do it")


RULE = Rule("writer", "TensorBoard's SummaryWriter, wandb, MLflow",
            "lets rank 0 log alone", "calls whose results are used", run)
