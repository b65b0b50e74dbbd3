from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import last
from stretto.migrate._rule import Rule, Script


def without_data_parallel(script: Script, edits: Edits) -> None:
  facts = script.facts
  for call in facts.calls("DataParallel"):
    if facts.called(call).startswith("torch") and call.args:
      edits.change(call, lambda current: current.args[0].value)
      edits.did(call, "nn.DataParallel is gone: DistributedDataParallel replaces it")


def toggles(script: Script, edits: Edits) -> None:
  """Parameters that are frozen while DistributedDataParallel waits for their gradients."""
  facts, training = script.facts, script.training
  for call in facts.calls("requires_grad_"):
    if training.in_training(call) and isinstance(call.func, cst.Attribute) and \
        facts.key(call.func.value) in training.wrapped:
      edits.leave(call, "parameters change requires_grad after the model was wrapped: give its "
                  "DistributedDataParallel find_unused_parameters=True, or leave them as they are")


def run(script: Script, edits: Edits) -> None:
  facts, training = script.facts, script.training
  without_data_parallel(script, edits)
  for wrap in training.wraps:
    twice = any(len(training.forwards(loop, facts.downstream(wrap.key))) > 1
                for loop in training.batch_loops)
    # A second forward before backward() must not change what the first one has kept.
    more = ", broadcast_buffers=False" if twice else ""
    text = f"{wrap.code} = DistributedDataParallel({wrap.code}{more})"
    insert = edits.insert_before if wrap.before else edits.insert_after
    insert(wrap.statement, text, "DistributedDataParallel")
    edits.did(wrap.statement, f"{wrap.code}: gradients are averaged over the ranks "
              "(DistributedDataParallel)")
    if twice:
      edits.note(wrap.statement, f"{wrap.code} is called several times in a step: buffers, such as "
                 "those of BatchNorm, are each rank's own; rank 0's are saved")
  for node, code in training.lost:
    edits.leave(node, f"wrap the model {code} in DistributedDataParallel before its optimizer is "
                "made")
  if not training.wraps and not training.lost:
    where = training.points[0] if training.points else facts.module
    if training.points:
      edits.leave(where, "there is no optimizer with parameters() of a model: wrap the model in "
                  "DistributedDataParallel by hand")
  toggles(script, edits)
  norms = [call for call in facts.all(cst.Call)
           if last(facts.called(call)) in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d")]
  if norms:
    edits.note(norms[0], "BatchNorm normalises by each rank's own batch; torch.nn.SyncBatchNorm."
               "convert_sync_batchnorm (on CPUs stretto.torch.convert_sync_batchnorm) makes it the "
               "batch of all ranks")


RULE = Rule("model", "optimizer = ...(model.parameters())",
            "wraps the model in DistributedDataParallel before the optimizer is made",
            "models whose origin cannot be followed; parameters frozen in mid-training", run)
