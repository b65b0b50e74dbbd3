from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Facts, Key, argument, last
from stretto.migrate._rule import Rule, Script
from stretto.migrate._training import counter, counts, reached_by_all, same_everywhere

HEAD = "if dist.get_rank() == 0:"
WRITES = {
  "torch.save", "json.dump", "pickle.dump", "joblib.dump", "numpy.save", "numpy.savez",
  "numpy.savetxt", "shutil.copyfile", "shutil.copy", "shutil.copy2", "shutil.move",
  "shutil.rmtree", "os.remove", "os.rename", "os.replace", "os.mkdir", "os.unlink",
  "torchvision.utils.save_image", "torch.onnx.export", "torch.jit.save",
}
READS = {"torch.load", "json.load", "pickle.load", "joblib.load", "numpy.load", "numpy.loadtxt",
         "torch.jit.load", "pandas.read_csv", "shutil.copyfile", "shutil.copy", "shutil.copy2"}
READ_METHODS = {"read_text", "read_bytes"}
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


def paths(facts: Facts, node: cst.CSTNode) -> set[str]:
  """What may name files in a call: texts, and names of variables."""
  return {facts.code(arg.value) for call in facts.within(node, cst.Call) for arg in call.args
          if isinstance(arg.value, (cst.SimpleString, cst.FormattedString, cst.Name,
                                    cst.Attribute, cst.BinaryOperation))}


def written(script: Script, edits: Edits) -> set[str]:
  """The paths of what rank 0 alone writes."""
  found: set[str] = set()
  for under in edits.under:
    if under.rule == RULE.name:
      found |= paths(script.facts, under.statement)
  return found


def comes_everywhere(script: Script, node: cst.CSTNode, known: set[str], depth: int = 0) -> bool:
  """Whether all ranks come to a node, as often as each other, as far as can be seen."""
  facts = script.facts
  scope = facts.scope(node)
  below = node
  for parent in facts.above(node):
    if isinstance(parent, (cst.For, cst.While)) and below is parent.body:
      if parent in script.training.batch_loops or counter(facts, parent) is None:
        return False
    if isinstance(parent, cst.FunctionDef):
      break
    below = parent
  if not reached(facts, node, known) or script.is_in_dataset(scope):
    return False
  if not scope:
    return True
  named = [n for n in facts.all(cst.Name) if n.value == last(scope)
           and isinstance(facts.parents.get(n), cst.Arg)]  # it is handed to somebody
  callers = facts.callers(scope)
  return depth < 6 and bool(callers) and not named and all(
      comes_everywhere(script, call, known, depth + 1) for call in callers)


def reached(facts: Facts, node: cst.CSTNode, known: set[str]) -> bool:
  """As reached_by_all(), through loops."""
  while True:
    if not reached_by_all(facts, node, known):
      return False
    loops = facts.loops(node)
    if not loops:
      return True
    node = loops[0]


def waits(script: Script, edits: Edits, call: cst.Call, known: set[str]) -> None:
  """Puts a barrier before what reads a file of rank 0: before the conditions around it, as each
  rank may look whether the file is there."""
  facts = script.facts
  for _, statement in facts.path(call):
    if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) or (
        isinstance(statement, cst.If) and "__main__" in facts.code(statement.test)):
      continue
    first = statement.body.body[0] if isinstance(statement, (cst.For, cst.While)) else None
    plain = statement is facts.statement(call) or isinstance(statement, (cst.If, cst.Try, cst.With))
    inside = {id(n) for n in facts.within(statement, cst.CSTNode)}
    if not plain or first is not None or (
        isinstance(statement, cst.If) and same_everywhere(facts, statement.test, known)):
      continue
    writes_too = any(id(under.node) in inside for under in edits.under)
    if writes_too and statement is not facts.statement(call):
      continue
    if not writes_too and comes_everywhere(script, statement, known):
      edits.insert_before(statement, "dist.barrier()")
      edits.did(call, "ranks read only after rank 0 has written")
      return
    break
  edits.leave(call, "rank 0 may still write this when another rank looks for it: call "
              "dist.barrier() between, where all ranks come")


def is_called(facts: Facts, load: cst.Call) -> bool:
  """Whether a whole module is loaded and used where it was: on the GPU, if it was on one."""
  parent = facts.parents.get(load)
  if not isinstance(parent, cst.Assign) or len(parent.targets) != 1:
    return False
  key = facts.key(parent.targets[0].target)
  uses = [call.func for call in facts.all(cst.Call) if key is not None]
  moved = any(isinstance(func, cst.Attribute) and func.attr.value in ("to", "cuda", "cpu")
              and facts.key(func.value) == key and facts.line(func) > facts.line(load)
              for func in uses)
  return not moved and any(
    facts.key(func) == key or (isinstance(func, cst.Attribute) and facts.key(func.value) == key
                               and func.attr.value in ("eval", "train", "parameters"))
    for func in uses)


def loads(script: Script, edits: Edits, saved: bool) -> None:
  facts, known = script.facts, counts(script.facts)
  by_rank_0 = written(script, edits)
  guarded = {id(n) for under in edits.under for n in facts.within(under.statement, cst.CSTNode)}
  for call in facts.all(cst.Call):
    name = facts.called(call)
    if name == "torch.load" and argument(call, "map_location", 1) is None:
      place = '{"cuda:0": "cuda"}' if is_called(facts, call) else '"cpu"'
      extra = cst.Arg(cst.parse_expression(place), keyword=cst.Name("map_location"),
                      equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")))
      edits.change(call, lambda current, extra=extra: current.with_changes(
          args=[*current.args, extra]))
      edits.did(call, "map_location: not all ranks to the GPU of the rank that saved")
    opened = last(name) == "open" and not opens_to_write(script, call)
    reads = name in READS or opened or (
        isinstance(call.func, cst.Attribute) and last(name) in READ_METHODS)
    mine = paths(facts, call) & by_rank_0 or (name == "torch.load" and saved)
    if reads and mine and id(call) not in guarded and by_rank_0 and \
        not script.is_in_dataset(facts.scope(call)):
      waits(script, edits, call, known)


def run(script: Script, edits: Edits) -> None:
  saved = saves(script, edits)
  folders(script, edits)
  loads(script, edits, saved)


RULE = Rule("checkpoint", "torch.save(), torch.load(), files that are written",
            "lets rank 0 write alone, and the others wait before they read",
            "files that stay open, and writing inside of expressions", run)
