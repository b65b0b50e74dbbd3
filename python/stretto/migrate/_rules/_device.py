from __future__ import annotations

import re

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import argument
from stretto.migrate._rule import Rule, Script


def run(script: Script, edits: Edits) -> None:
  facts = script.facts
  for node in facts.all(cst.SimpleString):
    if re.fullmatch(r"[\"']cuda:0[\"']", node.value):
      quote = node.value[0]
      edits.change(node, lambda _, quote=quote: cst.SimpleString(f"{quote}cuda{quote}"),
                   ranks=False)
      edits.did(node, "'cuda:0' became 'cuda', which is the GPU of the rank")
    elif re.fullmatch(r"[\"']cuda:\d+[\"']", node.value):
      edits.leave(node, f"{node.value} names one GPU for all ranks; 'cuda' is the GPU of the rank")
    elif "CUDA_VISIBLE_DEVICES" in node.value:
      edits.leave(node, "CUDA_VISIBLE_DEVICES would give all ranks the same GPUs: remove it")
  for node in facts.all(cst.FormattedString):
    if re.match(r"f[\"']cuda:", facts.code(node)):
      edits.leave(node, f"{facts.code(node)} may name one GPU for all ranks; 'cuda' is the GPU of "
                  "the rank")
  for call in facts.calls("device"):
    number = argument(call, "index", 1)
    if facts.called(call) != "torch.device" or number is None:
      continue
    if isinstance(number, cst.Integer) and int(number.value) == 0:
      edits.change(call, lambda current: current.with_changes(
          args=[current.args[0].with_changes(comma=cst.MaybeSentinel.DEFAULT)]), ranks=False)
      edits.did(call, f"{facts.code(call)} became torch.device('cuda'), the GPU of the rank")
    else:
      edits.leave(call, f"{facts.code(call)} names one GPU for all ranks; torch.device('cuda') is "
                  "the GPU of the rank")
  # A script that has one name for its GPU uses one GPU.
  names = {facts.code(number) for call in facts.calls("cuda", "set_device")
           if (number := argument(call, "device", 0)) is not None}
  for call in facts.calls("cuda", "set_device"):
    number = argument(call, "device", 0)
    selects = facts.called(call) == "torch.cuda.set_device"
    if not isinstance(number, cst.Integer) and not selects and (number is None or len(names) > 1):
      if number is not None and isinstance(call.func, cst.Attribute):
        edits.leave(call, f"where {facts.code(number)} is a number, all ranks get the same GPU: "
                    "write .cuda(), the GPU of the rank")
      continue
    if selects:
      edits.change(call, lambda _: cst.parse_expression("torch.cuda.current_device()"),
                   ranks=False)
      edits.did(call, "torch.cuda.set_device() is left to start_ranks()")
    elif isinstance(call.func, cst.Attribute):
      edits.change(call, lambda current: current.with_changes(args=[]), ranks=False)
      edits.did(call, f".cuda({facts.code(number)}) became .cuda(), the GPU of the rank")


RULE = Rule("device", "'cuda:0', .cuda(0), torch.cuda.set_device()",
            "names the GPU of the rank, which start_ranks() selects by LOCAL_RANK; a CPU stays one",
            "other numbers of GPUs; CUDA_VISIBLE_DEVICES", run)
