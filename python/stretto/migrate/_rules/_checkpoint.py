from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Facts, Key, argument, last
from stretto.migrate._rule import Rule, Script

HEAD = "if dist.get_rank() == 0:"
WRITES = {
  "torch.save", "json.dump", "pickle.dump", "joblib.dump", "numpy.save", "numpy.savez",
  "numpy.savetxt", "shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move",
  "shutil.rmtree", "os.remove", "os.rename", "os.replace", "os.mkdir", "os.unlink",
  "torchvision.utils.save_image", "torch.onnx.export", "torch.jit.save",
}
METHODS = {"savefig", "write_text", "write_bytes", "to_csv", "to_json", "save_pretrained",
           "save_image", "unlink", "touch"}


def writes(script: Script, call: cst.Call) -> bool:
  name = script.facts.called(call)
  return name in WRITES or (isinstance(call.func, cst.Attribute) and last(name) in METHODS
                            and not name.startswith("torch."))


def opens_to_write(script: Script, call: cst.Call) -> bool:
  facts = script.facts
  if facts.last_name(call) != "open" or script.is_in_dataset(facts.scope(call)):
    return False
  mode = argument(call, "mode", 0 if isinstance(call.func, cst.Attribute) else 1)
  return isinstance(mode, cst.SimpleString) and any(c in mode.value for c in "wax+")


def temporary(facts: Facts) -> set[Key]:
  """Variables with paths of temporary folders, which differ between ranks."""
  made = {"TemporaryDirectory", "mkdtemp", "mkstemp", "NamedTemporaryFile"}
  found: set[Key] = set()
  for item in facts.all(cst.WithItem):
    if item.asname is not None and any(facts.last_name(c) in made
                                       for c in facts.within(item.item, cst.Call)):
      key = facts.key(item.asname.name)
      found |= {key} if key is not None else set()
  before = -1
  while len(found) != before:
    before = len(found)
    for key, values in facts.assigned.items():
      for _, value in values:
        names = {facts.key(n) for n in facts.within(value, (cst.Name, cst.Attribute))}
        if names & found or any(facts.last_name(c) in made
                                for c in facts.within(value, cst.Call)):
          found.add(key)
    found |= {target for key in list(found) for target in facts.downstream(key)}
  return found


def saves(script: Script, edits: Edits) -> bool:
  facts = script.facts
  found, own = False, temporary(facts)
  for call in facts.all(cst.Call):
    if not writes(script, call):
      continue
    found = found or last(facts.called(call)) in ("save", "dump")
    statement = facts.statement(call)
    parent = facts.parents.get(call)
    simple = isinstance(statement, (cst.SimpleStatementLine, cst.If)) and isinstance(
        parent, cst.Expr)
    opened = any(isinstance(node, cst.With) and any(
        opens_to_write(script, c) for item in node.items for c in facts.within(item, cst.Call))
        for node in facts.above(call))
    if opened:
      continue  # with the whole block
    if own & {facts.key(n) for arg in call.args
              for n in facts.within(arg.value, (cst.Name, cst.Attribute))}:
      edits.note(call, "each rank writes a temporary file of its own here")
      continue
    if simple and edits.put_under(call, HEAD):
      edits.did(call, "rank 0 writes this alone")
    else:
      edits.leave(call, "every rank writes this: let rank 0 do it, under "
                  "`if dist.get_rank() == 0:`")
  for call in facts.all(cst.Call):
    if not opens_to_write(script, call):
      continue
    block = next((n for n in facts.above(call) if isinstance(n, cst.With)), None)
    inside = block is not None and any(call is c for item in block.items
                                       for c in facts.within(item, cst.Call))
    if inside and edits.put_under(call, HEAD):
      edits.did(call, "rank 0 writes this alone")
    else:
      edits.leave(call, "every rank opens this file to write it: let rank 0 do it")
  return found


def folders(script: Script, edits: Edits) -> None:
  facts = script.facts
  for call in facts.calls("makedirs", "mkdir"):
    name = facts.called(call)
    if name == "os.mkdir" or argument(call, "exist_ok") is not None:
      continue
    extra = cst.Arg(cst.Name("True"), keyword=cst.Name("exist_ok"),
                    equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
    edits.change(call, lambda current, extra=extra: current.with_changes(
        args=[*current.args, extra]))
    edits.did(call, "another rank may have made the folder (exist_ok=True)")


def loads(script: Script, edits: Edits, saved: bool) -> None:
  facts = script.facts
  for call in facts.all(cst.Call):
    if facts.called(call) != "torch.load":
      continue
    if argument(call, "map_location", 1) is None:
      extra = cst.Arg(cst.SimpleString('"cpu"'), keyword=cst.Name("map_location"),
                      equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
      edits.change(call, lambda current, extra=extra: current.with_changes(
          args=[*current.args, extra]))
      edits.did(call, "map_location: not all ranks to the GPU of the rank that saved")
    if saved and isinstance(facts.statement(call), cst.SimpleStatementLine) and \
        not script.training.in_training(call):
      edits.insert_before(call, "dist.barrier()")
      edits.did(call, "ranks read only after rank 0 has written")


def run(script: Script, edits: Edits) -> None:
  saved = saves(script, edits)
  folders(script, edits)
  loads(script, edits, saved)


RULE = Rule("checkpoint", "torch.save(), torch.load(), files that are written",
            "lets rank 0 write alone, and the others wait before they read",
            "files that stay open, and writing inside of expressions", run)
