from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Key, dotted_code
from stretto.migrate._rule import Rule, Script

# What DistributedDataParallel has as well.
SHARED = {"parameters", "named_parameters", "buffers", "named_buffers", "train", "eval",
          "zero_grad", "to", "cuda", "cpu", "forward", "apply", "requires_grad_", "training",
          "float", "double", "half", "no_sync", "modules", "named_modules",
          "register_forward_hook", "compile"}
WHOLE = ("save", "deepcopy", "export", "script", "trace", "isinstance", "summary", "dump",
         "save_pretrained", "AveragedModel", "type", "add_graph", "watch")


def is_container(script: Script, key: Key) -> bool:
  """Whether a variable holds models as elements, and is none itself."""
  kinds = (cst.Dict, cst.List, cst.DictComp, cst.ListComp, cst.Tuple)
  return any(isinstance(value, kinds) for _, value in script.facts.assigned.get(key, ())) or any(
      wrap.key == key and wrap.code.endswith("]") for wrap in script.training.wraps)


def may_be_wrapped(script: Script, node: cst.BaseExpression) -> bool:
  facts, training = script.facts, script.training
  key = facts.key(node)
  if key is None or key not in training.wrapped or \
      isinstance(node, cst.Subscript) != is_container(script, key):
    return False
  for wrap in training.wraps:
    if wrap.key == key and facts.scope(node) == facts.scope(wrap.statement):
      together = set(map(id, facts.loops(node))) & set(map(id, facts.loops(wrap.statement)))
      line, own = facts.line(wrap.statement), facts.line(node)
      before = own < line if wrap.before else own <= facts.end_line(wrap.statement)
      return not before or bool(together)
  return True


def is_unknown(script: Script, node: cst.BaseExpression) -> bool:
  """Whether nothing is known of where an object comes from."""
  key = script.facts.key(node)
  return bool(script.training.wraps) and key is not None and key not in script.training.wrapped \
      and not any(isinstance(value, cst.Call) and dotted_code(value.func) != "getattr"
                  for _, value in script.facts.assigned.get(key, ())) \
      and not script.facts.held(node) - getattr_calls(script)


def getattr_calls(script: Script) -> set[int]:
  return {id(call) for call in script.facts.calls("getattr")}


def run(script: Script, edits: Edits) -> None:
  facts, training = script.facts, script.training
  for node in facts.all(cst.Attribute):
    name = node.attr.value
    named = isinstance(node.value, cst.Subscript) or dotted_code(node.value) not in ("", "self")
    if named and name in ("state_dict", "load_state_dict") and is_unknown(script, node.value):
      edits.call(node.value, "unwrap")  # which leaves all but wrapped models as they are
      continue
    if not named or name in SHARED or not may_be_wrapped(script, node.value):
      continue
    if name == "module":
      edits.change(node, lambda current: cst.Call(cst.Name("unwrap"), [cst.Arg(current.value)]),
                   "unwrap")
      continue
    edits.call(node.value, "unwrap")
    if name in ("state_dict", "load_state_dict"):
      edits.did(node, f"{name}() is that of the module itself, so its names have no `module.`")
      continue
    call = facts.parents.get(node)
    trains = training.in_training(node) or facts.scope(node) in training.steps
    if isinstance(call, cst.Call) and call.func is node and trains:
      edits.leave(node, f"{facts.code(node)}() does not go through DistributedDataParallel: "
                  "gradients from it are not averaged; let the model's forward() call it")
    else:
      edits.did(node, f"{name} is an attribute of the module itself")
  for node in facts.all(cst.Subscript):  # a layer of a Sequential
    if dotted_code(node.value) not in ("", "self") and may_be_wrapped(script, node.value):
      edits.call(node.value, "unwrap")
  for call in facts.all(cst.Call):
    if facts.last_name(call) in WHOLE:
      for arg in call.args:
        if may_be_wrapped(script, arg.value):
          edits.call(arg.value, "unwrap")


RULE = Rule("unwrap", "attributes and state_dict() of a wrapped model",
            "takes them from the module itself, so checkpoints have the names they had",
            "methods that compute gradients outside of forward()", run)
