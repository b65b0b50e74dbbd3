from __future__ import annotations

import re

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Facts, Key, argument, constant_index, dotted_code
from stretto.migrate._rule import Rule, Script
from stretto.migrate._training import counts, reached_by_all, same_everywhere

HOW = {"sum_of_ranks": "added up", "mean_of_ranks": "averaged"}
SHOWN = ("print", "info", "debug", "warning", "write", "append", "log")
METERS = re.compile(r"Meter|Averag|Running|Tracker|Metric", re.I)
MEASURES = re.compile(r"\.item\(|float\(|\.sum\(|\.size\(|len\(|\.shape\b|\.numel\(|\.mean\(")
COUNTS = re.compile(r"\.sum\(|\.size\(|len\(|\.shape\b|\.numel\(")


def shared_loops(script: Script, edits: Edits) -> list[cst.For | cst.While]:
  """The loops over what is a rank's share of the samples."""
  facts, training = script.facts, script.training
  found = list(training.batch_loops)
  for loop in facts.all(cst.For):
    fed = training.fed_by(loop)
    if loop in found or not fed & training.fed:
      continue
    if training.evaluates(loop):
      sources = {facts.key(node) for node in training.sources(loop)}
      trained = {facts.key(node) for other in training.batch_loops
                 for node in training.sources(other)}
      if sources & trained and not any(map(constant_index, training.sources(loop))):
        edits.leave(loop, "if this is the loader of training, each rank measures its own share "
                    "here")
      continue
    around = any(inner in training.batch_loops
                 for inner in facts.within(loop, (cst.For, cst.While)))
    scope = facts.functions.get(facts.scope(loop))
    yields = scope is not None and any(facts.within(scope.node.body, cst.Yield))
    if around or yields:
      continue
    if fed <= training.fed:
      found.append(loop)
    else:
      edits.leave(loop, "this loop gets a rank's share of some loaders and the whole of others: "
                  "add what it measures over the ranks for the former only")
  return found


def numbers(facts: Facts, loop: cst.CSTNode) -> set[str]:
  """Names that are assigned the number of samples of a batch."""
  return {facts.code(target.target) for node in facts.within(loop, cst.Assign)
          for target in node.targets
          if re.search(r"\.size\(0\)$|^len\(\w+\)$|\.shape\[0\]$", facts.code(node.value))}


def sums(facts: Facts, loop: cst.For | cst.While) -> dict[str, tuple[cst.BaseExpression, bool]]:
  """What a loop adds up: variable -> (its node, whether it counts samples)."""
  sizes, found = numbers(facts, loop), {}
  tensors = {facts.code(t.target) for node in facts.within(loop, cst.Assign) for t in node.targets
             if isinstance(node.value, cst.Call)}
  for node in facts.within(loop, cst.AugAssign):
    if not isinstance(node.operator, cst.AddAssign) or facts.key(node.target) is None or \
        facts.loops(node)[0] is not loop:
      continue
    name, value = facts.code(node.target), facts.code(node.value)
    names = {n.value for n in facts.within(node.value, cst.Name)}
    counted = bool(COUNTS.search(value) or names & sizes) and not re.search(r"\.mean\(", value)
    if counted or MEASURES.search(value) or names & tensors:
      before = found.get(name)
      found[name] = (node.target, counted or bool(before and before[1]))
  return found


def divisor(facts: Facts, name: str, scope: cst.CSTNode) -> list[cst.BaseExpression]:
  """By what a sum is divided in a function."""
  found = []
  for node in facts.within(scope, cst.BinaryOperation):
    if isinstance(node.operator, cst.Divide) and \
        name in {facts.code(n) for n in facts.within(node.left, (cst.Name, cst.Attribute))}:
      found.append(node.right)
  for node in facts.within(scope, cst.AugAssign):
    if isinstance(node.operator, cst.DivideAssign) and facts.code(node.target) == name:
      found.append(node.value)
  return found


def values(facts: Facts, node: cst.BaseExpression) -> list[cst.BaseExpression]:
  """An expression, and what the names in it were assigned."""
  found = [node]
  for name in facts.within(node, cst.Name):
    key = facts.key(name)
    found += [value for _, value in facts.assigned.get(key, ())] if key is not None else []
  return found


def helper_for(script: Script, name: str, counted: bool, every: dict, scope: cst.CSTNode) -> str:
  """Whether ranks' sums are added, because they are divided by a number of all samples or shown as
  they are, or averaged, because they are divided by the number of a rank's batches."""
  facts, training = script.facts, script.training
  for node in divisor(facts, name, scope):
    words = {facts.code(n) for n in facts.within(node, (cst.Name, cst.Attribute))}
    if words & (every.keys() - {name}):
      return "sum_of_ranks"
    sizes = [measured for part in values(facts, node) for measured in facts.within(part, cst.Call)
             if dotted_code(measured.func) == "len" and measured.args]
    if any(training.loaders.keys() & facts.held(size.args[0].value) for size in sizes):
      return "mean_of_ranks"
    return "sum_of_ranks" if counted or sizes else "mean_of_ranks"
  divides = any(name in {facts.code(n) for right in divisor(facts, other, scope)
                         for n in facts.within(right, (cst.Name, cst.Attribute))}
                for other in every if other != name)
  return "sum_of_ranks" if counted or divides else "mean_of_ranks"


def read_after(facts: Facts, loop: cst.CSTNode, key, scope: cst.CSTNode) -> bool:
  inside = {id(n) for n in facts.within(loop, (cst.Name, cst.Attribute))}
  where = facts.module if key[0].startswith("class ") else scope
  for node in facts.within(where, (cst.Name, cst.Attribute)):
    if id(node) in inside or facts.key(node) != key:
      continue
    parent = facts.parents.get(node)
    if isinstance(parent, cst.AssignTarget) or (isinstance(parent, cst.AnnAssign)
                                                and parent.target is node):
      continue
    if key[0].startswith("class ") or facts.line(node) > facts.line(loop):
      return True
  return False


def shown_in(facts: Facts, loop: cst.CSTNode, known: set[str]) -> list[cst.CSTNode]:
  """What is printed or kept in a loop by all ranks alike, and the conditions of `if`. Inner loops
  may go round more often on one rank than on another."""
  found: list[cst.CSTNode] = []
  for call in facts.within(loop, cst.Call):
    if facts.loops(call)[:1] != [loop]:
      continue
    if is_shown(facts, call) and reached_by_all(facts, call, known):
      found += [arg.value for arg in call.args]
    if facts.last_name(call) == "update" and isinstance(call.func, cst.Attribute) and \
        call.args and reached_by_all(facts, call, known) and is_meter(facts, call):
      found.append(call.args[0])
  for node in facts.within(loop, cst.If):
    if facts.loops(node)[:1] == [loop] and reached_by_all(facts, node, known):
      found.append(node.test)
  return found


def is_meter(facts: Facts, call: cst.Call) -> bool:
  """An object of a class of the script that keeps an average."""
  held = facts.held(call.func.value)
  made = [dotted_code(c.func) for c in facts.all(cst.Call) if id(c) in held]
  return any(name in facts.classes and METERS.search(name) for name in made)


def is_shown(facts: Facts, call: cst.Call) -> bool:
  """print(), logging or a list that grows; not torch.log() in an expression."""
  return facts.last_name(call) in SHOWN and isinstance(facts.parents.get(call), cst.Expr)


def feeds(script: Script) -> set[Key]:
  """The variables that lead to a backward(): their graph must stay."""
  facts = script.facts
  found: set[Key] = set()
  front: list[cst.CSTNode] = list(script.training.points)
  grown: dict[Key, list[cst.CSTNode]] = {}
  for node in facts.all(cst.AugAssign):
    if (key := facts.key(node.target)) is not None:
      grown.setdefault(key, []).append(node.value)
  for call in facts.calls("append", "extend", "add"):
    if isinstance(call.func, cst.Attribute) and (key := facts.key(call.func.value)) is not None:
      grown.setdefault(key, []).extend(arg.value for arg in call.args)
  while front:
    for node in facts.variables(front.pop()):
      key = facts.key(node)
      if key is None or key in found or is_number(facts, node):
        continue
      found.add(key)
      front += [value for _, value in facts.assigned.get(key, ())] + grown.get(key, [])
  return found


def is_number(facts: Facts, node: cst.CSTNode) -> bool:
  """Whether only its .item() is used."""
  parent = facts.parents.get(node)
  return isinstance(parent, cst.Attribute) and parent.attr.value in ("item", "detach")


def inside_loop(script: Script, edits: Edits, loop, every: dict, known: set[str],
                kept: set[Key]) -> None:
  """Values of single steps, and sums that are shown before the loop ends."""
  facts = script.facts
  scope = facts.functions[facts.scope(loop)].node if facts.scope(loop) else facts.module
  for place in shown_in(facts, loop, known):
    if isinstance(place, cst.Arg):  # a meter takes an average and its weight
      if not isinstance(place.value, cst.Call) or facts.last_name(place.value) != "time":
        if re.search(r"time|\bend\b", facts.code(place.value)):
          continue
        if not reached_by_all(facts, place.value, known):
          continue
        edits.together(place.value, "mean_of_ranks")
        edits.did(place, f"{facts.code(place.value)} is averaged over the ranks")
      continue
    for call in facts.within(place, cst.Call):
      if isinstance(call.func, cst.Attribute) and call.func.attr.value == "item" and \
          not COUNTS.search(facts.code(call)) and reached_by_all(facts, call, known):
        edits.together(call, "mean_of_ranks")
        edits.did(call, f"{facts.code(call)} is averaged over the ranks")
    for node in facts.within(place, cst.Name):
      if node.value not in every and measured(facts, loop, node) and \
          reached_by_all(facts, node, known):
        edits.together(node, "mean_of_ranks")
        edits.did(node, f"{node.value} is averaged over the ranks")
    for node in facts.within(place, (cst.Name, cst.Attribute)):
      name = facts.code(node)
      if name in every and not isinstance(facts.parents.get(node), cst.Attribute) and \
          facts.key(node) not in kept and reached_by_all(facts, node, known):
        helper = helper_for(script, name, every[name][1], every, scope)
        edits.together(node, helper)
        edits.did(node, f"{name} is {HOW[helper]} over the ranks")


def measured(facts: Facts, loop: cst.CSTNode, node: cst.Name) -> bool:
  """Whether a variable is a number that a step of the loop has measured: x = y.mean().item()."""
  key = facts.key(node)
  if key is None or isinstance(facts.parents.get(node), (cst.Attribute, cst.AssignTarget)):
    return False
  inside = {id(call) for call in facts.within(loop, cst.Call)}
  values = [value for _, value in facts.assigned.get(key, ())]
  return bool(values) and all(
    id(value) in inside and isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)
    and value.func.attr.value == "item" and not COUNTS.search(facts.code(value))
    for value in values)


def behind_loop(script: Script, edits: Edits, loop: cst.CSTNode, scope: cst.CSTNode,
                known: set[str]) -> None:
  """The last loss of a loop, shown behind it."""
  facts = script.facts
  inside = {id(call) for call in facts.within(loop, cst.Call)}
  losses = {facts.code(node) for point in script.training.points  # scaler.scale(loss).backward()
            if id(point) in inside and isinstance(point.func, cst.Attribute)
            for node in [point.func.value, *facts.variables(point.func.value)]}
  for call in facts.within(scope, cst.Call):
    if id(call) in inside or facts.line(call) < facts.line(loop) or \
        not is_shown(facts, call) or not reached_by_all(facts, call, known) or \
        facts.loops(call) != facts.loops(loop):
      continue
    for node in facts.within(call, cst.Name):
      values = [value for _, value in facts.assigned.get(facts.key(node) or ("", ""), ())]
      if values and all(is_scaled(facts, value, losses, known) for value in values) and \
          reached_by_all(facts, node, known):
        edits.together(node, "mean_of_ranks")
        edits.did(node, f"{node.value} is averaged over the ranks")
    for value in facts.within(call, cst.Call):
      shown = isinstance(value.func, cst.Attribute) and value.func.attr.value == "item"
      if shown and facts.code(value.func.value) in losses and reached_by_all(facts, value, known):
        edits.together(value, "mean_of_ranks")
        edits.did(value, f"{facts.code(value)} is averaged over the ranks")


def is_scaled(facts: Facts, value: cst.BaseExpression, losses: set[str], known: set[str]) -> bool:
  """Whether a value is loss.item(), or that times or by a count."""
  if isinstance(value, cst.BinaryOperation) and isinstance(value.operator,
                                                           (cst.Multiply, cst.Divide)):
    return same_everywhere(facts, value.right, known) and is_scaled(facts, value.left, losses,
                                                                    known)
  return isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and \
      value.func.attr.value == "item" and facts.code(value.func.value) in losses


def shares_in_expressions(script: Script, edits: Edits) -> None:
  """[loss(model(x), y) for x, y in loader], of a loader that is a rank's share."""
  facts, training = script.facts, script.training
  for part in facts.all(cst.CompFor):
    held = facts.held(part.iter) & training.fed
    if held and not held <= training.mixed:
      edits.leave(part, "each rank goes through its own share of the samples here: add up or "
                  "average what comes of it by sum_of_ranks() or mean_of_ranks()")


def run(script: Script, edits: Edits) -> None:
  facts = script.facts
  shares_in_expressions(script, edits)
  known, kept = counts(facts), feeds(script)
  for loop in shared_loops(script, edits):
    name = facts.scope(loop)
    scope = facts.functions[name].node if name else facts.module
    every = sums(facts, loop)
    reset = {facts.code(t.target) for node in facts.within(loop, cst.Assign) for t in node.targets}
    inside_loop(script, edits, loop, every, known, kept)
    behind_loop(script, edits, loop, scope, known)
    for variable, (node, counted) in every.items():
      if variable in reset or not read_after(facts, loop, facts.key(node), scope):
        continue
      helper = helper_for(script, variable, counted, every, scope)
      if facts.key(node) in kept:
        edits.leave(loop, f"{variable} leads to a backward(), so it stays that of a rank's own "
                    f"samples: show {helper}({variable}) where it is only shown")
        continue
      around = [outer for outer in facts.loops(loop)
                if not any(facts.code(t.target) == variable
                           for a in facts.within(outer.body, cst.Assign) for t in a.targets)]
      if around:
        edits.leave(loop, f"{variable} grows over several of these loops: it is rank 0's share; "
                    f"use {helper}() where it is read")
        continue
      edits.insert_after(loop, f"{variable} = {helper}({variable})", helper)
      edits.did(loop, f"{variable} is {HOW[helper]} over the ranks")
    unclear(script, edits, loop, known)
    if loop in script.training.batch_loops:
      parting(script, edits, loop, known)
  parting_steps(script, edits, known)


ALONE = ("each rank decides here by its own values, and others would wait for it: decide by "
         "mean_of_ranks() or sum_of_ranks()")


def parting(script: Script, edits: Edits, loop: cst.For | cst.While, known: set[str]) -> None:
  """Where a rank may leave a loop, or a step, that others go on with: they would wait for it."""
  facts, training = script.facts, script.training
  if isinstance(loop, cst.While) and re.search(r"loss|\.item\(", facts.code(loop.test)):
    edits.leave(loop, "each rank ends this loop by its own values, and others would wait for it: "
                "decide by mean_of_ranks()")
  for node in facts.within(loop.body, cst.If):
    leaves = [n for n in facts.within(node, (cst.Break, cst.Continue, cst.Return))
              if isinstance(n, cst.Return) or loop in facts.loops(n)[:1]]
    if (leaves or training.needs_all(node)) and not agreed(facts, edits, node.test, known):
      edits.leave(node, ALONE)
  for node in facts.within(loop.body, (cst.Try, cst.TryStar)):
    swallows = [h for h in node.handlers if not any(facts.within(h, cst.Raise))
                and not re.search("StopIteration|Import", facts.code(h.type) if h.type else "")]
    if swallows and training.needs_all(node.body):
      edits.leave(swallows[0], "a rank that comes here leaves out what the others wait for in: end "
                  "the rank instead (raise)")


def parting_steps(script: Script, edits: Edits, known: set[str]) -> None:
  """The same in functions that make one step, and optimizers that call one."""
  facts, training = script.facts, script.training
  for name in training.steps:
    for node in facts.within(facts.functions[name].node.body, cst.If):
      if facts.scope(node) == name and (any(facts.within(node, cst.Return))
                                        or training.needs_all(node)) and \
          not agreed(facts, edits, node.test, known):
        edits.leave(node, ALONE)
  for call in facts.calls("step"):
    closure = argument(call, "closure", 0)
    names = facts.code(closure) if closure is not None else ""
    if any(name.rpartition(".")[2] == names for name in training.steps) or isinstance(
        closure, cst.Lambda):
      edits.leave(call, "the optimizer calls this closure itself: LBFGS does so as often as a "
                  "rank's own losses ask for, and others would wait; return the mean_of_ranks() of "
                  "the loss from it, and compare with one rank")


def agreed(facts: Facts, edits: Edits, test: cst.BaseExpression, known: set[str]) -> bool:
  """Whether all ranks come to the same result: a counter, an option, or the mean of ranks."""
  phases = {loop.target.value for loop in facts.all(cst.For)  # for phase in "train", "val"
            if isinstance(loop.target, cst.Name) and isinstance(loop.iter, (cst.List, cst.Tuple))
            and all(isinstance(e.value, (cst.SimpleString, cst.Integer))
                    for e in loop.iter.elements)}
  return same_everywhere(facts, test, known | phases, edits.shared)


def unclear(script: Script, edits: Edits, loop: cst.For | cst.While, known: set[str]) -> None:
  facts = script.facts
  for call in facts.within(loop, cst.Call):
    name = facts.last_name(call)
    if name in ("extend", "append") and isinstance(call.func, cst.Attribute) and call.args and \
        re.search(r"tolist|numpy|\.cpu\(", facts.code(call.args[0])):
      edits.leave(call, "each rank keeps the values of its own samples here: gather them with "
                  "dist.all_gather_object() before they are used")
    elif name in SHOWN and call.args and not reached_by_all(facts, call, known) and \
        ".item()" in facts.code(call) and facts.loops(call)[0] is loop:
      edits.note(call, "this shows the value of rank 0's own samples: ranks may not all come here")
    elif name in ("set_postfix", "set_description", "add_scalar", "set_postfix_str") or (
        name == "log" and argument(call, "step")):
      if "loss" in facts.code(call):
        edits.note(call, "this shows the values of rank 0's own samples")


RULE = Rule("metrics", "sums, averages and printed losses of a loop over a rank's share",
            "adds or averages them over the ranks, by what they are divided by",
            "collected predictions, and sums that outlive their loop", run)
