"""Where a script trains: its loops over batches and epochs, the loaders that feed them, and the
models that its optimizers change."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from stretto.migrate._facts import (
  PASS_ON,
  Facts,
  Key,
  argument,
  constant_index,
  dotted_code,
  last,
)

OPTIMIZER = re.compile(r"(Adam\w*|SGD|RMSprop|Adagrad|LAMB|Lamb|LARS|Lion|Optimizer|Adafactor|Muon"
                       r"|Shampoo|Rprop|LBFGS)$")
COUNTERS = ("args", "opt", "opts", "cfg", "config", "hparams", "FLAGS", "self")
PURE = ("len", "int", "range", "min", "max", "abs", "isinstance", "hasattr", "is_available",
        "ceil", "floor", "round")


@dataclass(frozen=True)
class Wrap:
  """A model that has to be wrapped before a statement, or after it."""
  key: Key
  code: str
  statement: cst.CSTNode
  before: bool


class Training:
  def __init__(self, facts: Facts) -> None:
    self.facts = facts
    self.steps: set[str] = set()  # functions that make one step, without a loop of their own
    self.points = self._points()
    self.batch_loops = list(dict.fromkeys(
        loops[0] for point in self.points if (loops := facts.loops(point))))
    self.loaders = {id(call): call for call in facts.all(cst.Call) if self._is_loader(call)}
    self.fed = self._fed()
    self.mixed = self._mixed()
    self.lost: list[tuple[cst.CSTNode, str]] = []  # models that could not be traced
    self.wraps = self._wraps()
    self.wrapped: set[Key] = set()
    for wrap in self.wraps:
      self.wrapped |= facts.downstream(wrap.key)
    self.together = self._together()

  # Loops.

  def _points(self) -> list[cst.Call]:
    facts = self.facts
    points = [call for call in facts.calls("backward") if isinstance(call.func, cst.Attribute)]
    for point in points:  # grows
      function = facts.scope(point)
      if function and not facts.loops(point) and function not in self.steps:
        self.steps.add(function)
        points += facts.callers(function)
    return points

  def in_training(self, node: cst.CSTNode) -> cst.For | cst.While | None:
    """The loop over batches in which a node is."""
    return next((loop for loop in self.facts.loops(node) if loop in self.batch_loops), None)

  def epoch_loop(self, loop: cst.For | cst.While, depth: int = 0) -> cst.For | cst.While:
    """The outermost loop around a loop over batches, in the function or in its callers."""
    around = self.facts.loops(loop)
    if around:
      return around[-1]
    function = self.facts.scope(loop)
    for call in self.facts.callers(function) if function and depth < 4 else ():
      outer = self.facts.loops(call)
      if outer:
        return outer[-1]
      found = self._around_call(call, depth + 1)
      if found is not None:
        return found
    return loop

  def _around_call(self, call: cst.Call, depth: int) -> cst.For | cst.While | None:
    function = self.facts.scope(call)
    for outer in self.facts.callers(function) if function and depth < 4 else ():
      loops = self.facts.loops(outer)
      found = loops[-1] if loops else self._around_call(outer, depth + 1)
      if found is not None:
        return found
    return None

  def epoch_name(self, loop: cst.For | cst.While) -> str | None:
    """The variable that counts epochs where a loop over batches begins."""
    facts = self.facts
    for outer in facts.loops(loop):
      if (name := counter(facts, outer)) is not None:
        return name
    function = facts.functions.get(facts.scope(loop))
    if function is None:
      return None
    names = set()
    for call in facts.callers(function.name):
      counters = {counter(facts, outer) for outer in facts.loops(call)}
      found = {name for name, value in facts.passed(call, function)
               if isinstance(value, cst.Name) and value.value in counters}
      found |= {name for name, value in facts.passed(call, function)
                if isinstance(value, cst.Name) and "epoch" in name
                and "epoch" in value.value and not name.endswith("s")}
      names.add(found.pop() if len(found) == 1 else None)
    return names.pop() if len(names) == 1 else None

  # Loaders.

  def _is_loader(self, call: cst.Call) -> bool:
    name = self.facts.called(call)
    return (name.startswith("torch.") and last(name) == "DataLoader") or (
        name in self.facts.classes and self.facts.inherits(name, "DataLoader"))

  def sources(self, loop: cst.For | cst.While) -> list[cst.BaseExpression]:
    """The expressions that a loop goes through, without enumerate(), tqdm() and zip()."""
    if not isinstance(loop, cst.For):
      return []
    front, found = [loop.iter], []
    while front:
      node = front.pop()
      if isinstance(node, cst.Call) and node.args and self.facts.last_name(node) in (
          *PASS_ON, "zip", "chain"):
        many = self.facts.last_name(node) in ("zip", "chain")
        front += [arg.value for arg in (node.args if many else node.args[:1])]
      elif isinstance(node, cst.NamedExpr):
        front.append(node.value)
      else:
        found.append(node)
    return found

  def fed_by(self, loop: cst.For | cst.While) -> set[int]:
    """The loaders that a loop goes through."""
    found = set()
    for source in self.sources(loop):
      found |= self.facts.held(source) & self.loaders.keys()
    return found

  def _fed(self) -> set[int]:
    """The loaders of training: those whose batches lead to a backward()."""
    facts, found = self.facts, set()
    scopes = {facts.scope(loop) for loop in self.batch_loops}
    for loop in self.batch_loops:
      for outer in [loop, *facts.loops(loop)]:
        found |= self.fed_by(outer)
    for call in facts.calls("next", "iter"):
      if facts.scope(call) in scopes and call.args:
        # A loader that is gone through by hand; not the look at one batch outside of any loop.
        if self.in_training(call) or facts.last_name(call) == "iter":
          found |= facts.held(call.args[0].value) & self.loaders.keys()
    for name, function in facts.functions.items():  # generators of batches
      if any(facts.within(function.node.body, cst.Yield)):
        for loop in facts.within(function.node.body, cst.For):
          if facts.scope(loop) == name:
            found |= self.fed_by(loop)
    if not found:
      found = {n for n, call in self.loaders.items()
               if facts.code(argument(call, "shuffle") or cst.Name("False")) != "False"}
    return found

  def _mixed(self) -> set[int]:
    """The loaders of training that one call makes together with those of evaluation, by
    `shuffle=train` or the like. Not where one loop trains and evaluates: it adds up both."""
    facts, found = self.facts, set()
    for number in self.fed:
      shuffle = argument(self.loaders[number], "shuffle", 2)
      names = set() if shuffle is None else {
          facts.key(name) for name in facts.variables(shuffle)} - {None}
      if isinstance(shuffle, cst.Comparison) or any(self._is_switch(key) for key in names):
        found.add(number)
    for loop in self.batch_loops:
      for source in self.sources(loop):
        if isinstance(source, cst.Subscript) and constant_index(source) is None:
          found -= facts.held(source)
    return found

  def _is_switch(self, key: Key) -> bool:
    """Whether a variable is a parameter by which some callers ask for something, and others not."""
    facts = self.facts
    function = facts.functions.get(key[0])
    if function is None or key[1] not in function.params:
      return False
    given = {facts.code(value) for call in facts.callers(function.name)
             for name, value in facts.passed(call, function) if name == key[1]}
    return given - {"False"} != set() or key[1] in function.defaults

  def evaluates(self, loop: cst.For) -> bool:
    """Whether a loop goes through the whole of a loader that is a rank's share elsewhere."""
    fed = self.fed_by(loop)
    return bool(fed) and fed <= self.mixed and loop not in self.batch_loops

  # Models.

  def optimizers(self) -> list[cst.Call]:
    facts, found = self.facts, []
    for call in facts.all(cst.Call):
      name = facts.called(call)
      if any(word in name for word in ("lr_scheduler", "swa_utils", "GradScaler")):
        continue
      # getattr(torch.optim, name)(...), KINDS[name](...), or what such an expression was kept in.
      inner = isinstance(call.func, (cst.Call, cst.Subscript)) or any(
          "optim." in facts.code(value) or "optim," in facts.code(value)
          for _, value in facts.assigned.get(facts.key(call.func) or ("", ""), ())
          if not isinstance(value, cst.Call) or facts.last_name(value) in ("getattr", "partial"))
      if (name.startswith("torch.optim.") or OPTIMIZER.search(name) or inner) and \
          self.tuned(call):
        found.append(call)
    return found

  def tuned(self, optimizer: cst.Call) -> list[tuple[Key, cst.BaseExpression]]:
    """The models whose parameters() an optimizer gets."""
    facts, found = self.facts, []
    for node in self._made_of(optimizer):
      for call in facts.within(node, cst.Call):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in (
            "parameters", "named_parameters"):
          model = self._model(call.func.value)
          if model is not None and model[0] not in [key for key, _ in found]:
            found.append(model)
    return found

  def _made_of(self, optimizer: cst.Call) -> list[cst.CSTNode]:
    """The arguments of an optimizer, and what the variables in them were assigned, grew by, or got
    from the callers of the function."""
    facts = self.facts
    nodes: list[cst.CSTNode] = list(optimizer.args)
    seen: set[Key] = set()
    for node in nodes:  # grows
      for variable in facts.variables(node):
        key = facts.key(variable)
        if key is None or key in seen or isinstance(facts.parents.get(variable), cst.Attribute):
          continue
        seen.add(key)
        nodes += [value for _, value in facts.assigned.get(key, ())]
        nodes += [call for call in facts.calls("append", "extend", "add_param_group")
                  if isinstance(call.func, cst.Attribute) and facts.key(call.func.value) == key]
        function = facts.functions.get(key[0])
        if function is not None and key[1] in function.params:
          nodes += [value for call in facts.callers(function.name)
                    for name, value in facts.passed(call, function) if name == key[1]]
    return nodes

  def _model(self, node: cst.BaseExpression) -> tuple[Key, cst.BaseExpression] | None:
    """The whole model of `model.fc`."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Attribute) or (
        isinstance(node, cst.Attribute) and dotted_code(node.value) != "self"):
      inner = self._model(node.value)
      if inner is not None:
        return inner
    key = self.facts.key(node)
    return None if key is None else (key, node)

  def _wraps(self) -> list[Wrap]:
    found: dict[Key, Wrap] = {}
    for optimizer in self.optimizers():
      for key, node in self.tuned(optimizer):
        self._wrap(key, self.facts.code(node), optimizer, found, 0)
    return list(found.values())

  def _wrap(self, key: Key, code: str, anchor: cst.Call, found: dict[Key, Wrap],
            depth: int) -> None:
    """Where the model that `anchor` uses is made: as late as possible, before it is used."""
    facts = self.facts
    if key in found or depth > 6:
      return
    made = [node for node, _ in facts.assigned.get(key, ())]
    scope = facts.scope(anchor)
    here = [node for node in made if facts.scope(node) == scope
            and facts.line(node) <= facts.line(anchor)]
    if here:
      statement = meeting(facts, here[-1], anchor)
      found[key] = Wrap(key, code, statement, before=True)
    elif made:
      node = made[-1]
      if not key[0].startswith("class "):
        code = key[1]
      found[key] = Wrap(key, code, self._prepared(key, node), before=False)
    elif key[0] in facts.functions and not key[0].startswith("class "):
      callers = facts.callers(key[0])
      for call in callers:
        value = dict(facts.passed(call, facts.functions[key[0]])).get(key[1])
        if key[1] == "self" and isinstance(call.func, cst.Attribute):
          value = call.func.value  # the model makes its optimizer itself
        outer = facts.key(value) if value is not None else None
        if outer is not None:
          self._wrap(outer, facts.code(value), call, found, depth + 1)
        elif value is not None:
          self.lost.append((call, facts.code(value)))
      if not callers:
        self.lost.append((anchor, code))
    else:
      self.lost.append((anchor, code))

  def _prepared(self, key: Key, node: cst.CSTNode) -> cst.CSTNode:
    """The last statement behind `node`, in its block, that still prepares the model."""
    facts = self.facts
    block, statement = facts.path(node)[-1]
    rest = list(block.body)[list(block.body).index(statement):]
    for later in rest[1:]:
      calls = [c for c in facts.within(later, cst.Call) if isinstance(c.func, cst.Attribute)
               and facts.key(c.func.value) == key
               and c.func.attr.value in ("to", "cuda", "apply", "load_state_dict", "float",
                                         "double")]
      if calls:
        statement = later
    return statement

  def _together(self) -> set[str]:
    """The functions that all ranks have to run together: they train, or call a wrapped model."""
    facts = self.facts
    found = {facts.scope(node) for node in [*self.points, *self.batch_loops]} - {""}
    calls = [(facts.scope(call), call) for call in facts.all(cst.Call)]
    found |= {scope for scope, call in calls if scope and facts.key(call.func) in self.wrapped}
    before = -1
    while len(found) != before:
      before = len(found)
      found |= {scope for scope, call in calls if scope and any(
          function.name in found for function in facts.local_functions(call))}
    return found

  def needs_all(self, node: cst.CSTNode) -> bool:
    """Whether ranks would wait for one that leaves this out."""
    facts = self.facts
    return any(call in self.points or facts.key(call.func) in self.wrapped or any(
        function.name in self.together for function in facts.local_functions(call))
        for call in facts.within(node, cst.Call))

  def forwards(self, loop: cst.CSTNode, keys: set[Key]) -> list[cst.Call]:
    """The calls of these models in a loop."""
    return [call for call in self.facts.within(loop, cst.Call)
            if self.facts.key(call.func) in keys]


def meeting(facts: Facts, made: cst.CSTNode, used: cst.CSTNode) -> cst.CSTNode:
  """The statement around `used` in the innermost block that has `made` as well: a model that is
  made in one branch and used behind it is wrapped once."""
  blocks = {id(block): statement for block, statement in facts.path(made)}
  found = facts.statement(used)
  for block, statement in facts.path(used):
    if id(block) in blocks:
      found = statement
      if blocks[id(block)] is not statement:
        break
  return found


def counter(facts: Facts, loop: cst.For | cst.While) -> str | None:
  """The variable of `for epoch in range(...)`."""
  if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Name):
    return None
  node = loop.iter
  while isinstance(node, cst.Call) and facts.last_name(node) in PASS_ON - {"trange", "enumerate"} \
      and node.args:
    node = node.args[0].value
  is_range = isinstance(node, cst.Call) and facts.last_name(node) in ("range", "trange")
  return loop.target.value if is_range else None


def counts(facts: Facts) -> set[str]:
  """The names of variables that have the same value on every rank: counters of loops, sums of
  constants, and what is assigned a literal."""
  found = set()
  for loop in facts.all(cst.For):
    if (name := counter(facts, loop)) is not None:
      found.add(name)
    if isinstance(loop.iter, cst.Call) and facts.last_name(loop.iter) == "enumerate" and \
        isinstance(loop.target, cst.Tuple):
      found |= {n.value for n in facts.within(loop.target.elements[0].value, cst.Name)}
  for function in facts.functions.values():
    found |= function.defaults
  literal: dict[str, bool] = {}
  steps = {node.target.value for node in facts.all(cst.AugAssign)
           if isinstance(node.target, cst.Name) and isinstance(node.value, cst.Integer)
           and reached_by_all(facts, node, found)}
  every = list(assignments(facts))
  while True:  # what is computed from counts alone is one, too
    known = found | {name for name, same in literal.items() if same}
    literal = {}
    for name, value in every:
      same = isinstance(value, (cst.Integer, cst.Float, cst.SimpleString)) or (
          isinstance(value, cst.Call) and facts.last_name(value) == "len") or (
          # A counter that goes on from a checkpoint.
          name in steps and isinstance(value, (cst.Subscript, cst.Attribute))) or (
          isinstance(value, (cst.BinaryOperation, cst.Call)) and computed(facts, value, known))
      literal[name] = literal.get(name, True) and same
    if {name for name, same in literal.items() if same} <= known:
      return known


def assignments(facts: Facts) -> Iterator[tuple[str, cst.BaseExpression]]:
  """(variable, what it gets), of a tuple the tuple's elements."""
  for node in facts.all(cst.AugAssign):
    if isinstance(node.target, cst.Name):
      yield node.target.value, node.value
  for node in facts.all(cst.Assign):
    for target in node.targets:
      if isinstance(target.target, cst.Name):
        yield target.target.value, node.value
      elif isinstance(target.target, (cst.Tuple, cst.List)):
        names = [element.value for element in target.target.elements]
        values = [node.value] * len(names)
        if isinstance(node.value, (cst.Tuple, cst.List)) and \
            len(node.value.elements) == len(names):
          values = [element.value for element in node.value.elements]
        for name, value in zip(names, values):
          if isinstance(name, cst.Name):
            yield name.value, value


def computed(facts: Facts, value: cst.BaseExpression, known: set[str]) -> bool:
  """Whether a value is made of counts and options alone. What an object holds may be measured."""
  return same_everywhere(facts, value, known) and not any(
      name.value == "self" for name in facts.within(value, cst.Name))


def same_everywhere(facts: Facts, node: cst.BaseExpression, known: set[str],
                    shared: Collection[int] = ()) -> bool:
  """Whether a condition is made of counters, constants and options, and of `shared` values, and so
  holds on all ranks or on none."""
  apart = {id(n) for n in facts.within(node, cst.CSTNode) if id(n) in shared
           or any(id(above) in shared for above in facts.above(n))}
  for call in facts.within(node, cst.Call):
    if id(call) not in apart and last(dotted_code(call.func)) not in PURE and \
        facts.called(call) not in ("math.isnan", "math.isfinite", "math.isinf", "numpy.isnan"):
      return False
  for name in facts.within(node, cst.Name):
    if id(name) in apart:
      continue
    parent = facts.parents.get(name)
    if isinstance(parent, cst.Attribute) and parent.attr is name:
      continue
    if isinstance(parent, cst.Call) and parent.func is name:
      continue
    if isinstance(parent, cst.Arg) and isinstance(facts.parents.get(parent), cst.Call) and \
        dotted_code(facts.parents[parent].func) == "len":
      continue
    based = isinstance(parent, cst.Attribute) and name.value in (*COUNTERS, "math")
    if not (based or name.value.isupper() or name.value in known
            or name.value in ("True", "False", "None", "epoch", "__name__")):
      return False
  return True


def reached_by_all(facts: Facts, node: cst.CSTNode, known: set[str]) -> bool:
  """Whether all ranks come to a node in a loop over batches equally often."""
  below = node
  for parent in facts.above(node):
    if isinstance(parent, (cst.For, cst.While)):
      return below is not parent.orelse
    if isinstance(parent, cst.FunctionDef):
      return True
    if isinstance(parent, (cst.Lambda, cst.Try, cst.TryStar, cst.CompFor, cst.BaseComp, cst.Assert,
                           cst.Match)):
      return False
    if isinstance(parent, cst.Comparison) and below in parent.comparisons[1:]:
      return False  # a < b < c looks at c only if a < b
    if isinstance(parent, cst.If) and below is not parent.test and \
        not same_everywhere(facts, parent.test, known):
      return False
    if isinstance(parent, cst.IfExp) and below is not parent.test and \
        not same_everywhere(facts, parent.test, known):
      return False
    if isinstance(parent, cst.BooleanOperation) and below is parent.right:
      return False
    below = parent
  return True
