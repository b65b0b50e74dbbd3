"""What a script does, as far as it can be read without running it: the names it imports, its
functions and classes, and which models and loaders each variable may hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

# A variable: (scope, name). The scope is "" for the module, "f" or "C.f" for a function, "class C"
# for the attributes of an object, "return f" for what a function returns, by place.
Key = tuple[str, str]

# Calls that hand on (a view of) their first argument, and methods that return their object.
PASS_ON = {"tqdm", "trange", "enumerate", "iter", "list", "islice", "cycle", "compile",
           "DataParallel", "track", "script"}
FLUENT = {"to", "cuda", "cpu", "float", "double", "half", "bfloat16", "train", "eval", "xpu",
          "requires_grad_", "type", "share_memory", "compile"}


@dataclass
class Function:
  name: str  # "f" or "C.f"
  node: cst.FunctionDef
  owner: str  # the class of a method, or ""
  within: str  # the class whose `self` a method, or a function in it, sees
  params: list[str]
  local: set[str] = field(default_factory=set)
  defaults: set[str] = field(default_factory=set)  # parameters with a default that is a literal


def last(dotted: str) -> str:
  return dotted.rpartition(".")[2]


def dotted_code(node: cst.BaseExpression) -> str:
  """`a.b.c` of names and attributes; "" for anything else."""
  if isinstance(node, cst.Name):
    return node.value
  if isinstance(node, cst.Attribute):
    base = dotted_code(node.value)
    return f"{base}.{node.attr.value}" if base else ""
  return ""


def argument(call: cst.Call, name: str, place: int | None = None) -> cst.BaseExpression | None:
  """By keyword, or by place."""
  for arg in call.args:
    if arg.keyword is not None and arg.keyword.value == name:
      return arg.value
  if place is not None and len(call.args) > place:
    before = call.args[:place + 1]
    if all(arg.keyword is None and not arg.star for arg in before):
      return before[place].value
  return None


def constant_index(node: cst.BaseExpression) -> str | None:
  """`train` of loaders["train"]."""
  if isinstance(node, cst.Subscript) and len(node.slice) == 1:
    index = node.slice[0].slice
    if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
      return index.value.evaluated_value
  return None


class Facts:
  """Of one module. Nodes are those of `module`, which is never changed."""

  def __init__(self, source: str) -> None:
    wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
    self.module = wrapper.module
    self.positions = wrapper.resolve(PositionProvider)
    self.nodes: dict[type, list[cst.CSTNode]] = defaultdict(list)
    self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
    self.children: dict[cst.CSTNode, list[cst.CSTNode]] = {}  # theirs are computed at each look
    self._collect(self.module)
    self.imports: dict[str, str] = {}
    self.functions: dict[str, Function] = {}
    self.classes: dict[str, cst.ClassDef] = {}
    self._scopes: dict[int, str] = {}
    self._read_imports()
    self._read_definitions()
    self.module_names = self._assigned_in(self.module, "")
    self.edges: dict[Key, set[Key]] = defaultdict(set)
    self.made: dict[Key, set[int]] = defaultdict(set)  # calls whose result the variable may hold
    self.assigned: dict[Key, list[tuple[cst.CSTNode, cst.BaseExpression]]] = defaultdict(list)
    self.elements: dict[Key, list[tuple[str, cst.BaseExpression]]] = defaultdict(list)
    self.attributes = self._read_attributes()
    self._read_flow()
    self.holds = self._spread()
    self.parts: dict[Key, dict[str, set[int]]] = {}
    self.parts = self._read_parts()

  # The tree.

  def _collect(self, node: cst.CSTNode) -> None:
    self.nodes[type(node)].append(node)
    self.children[node] = [child for child in node.children
                           if not isinstance(child, cst.BaseParenthesizableWhitespace)]
    for child in self.children[node]:
      self.parents[child] = node
      self._collect(child)

  def all(self, kind: type) -> list:
    """The nodes of a type, in the order of the text."""
    return self.nodes[kind]

  def within(self, node: cst.CSTNode, kind: type | tuple[type, ...]) -> Iterator:
    """The nodes of a type below a node, itself included."""
    if isinstance(node, kind):
      yield node
    for child in self.children.get(node, ()):
      yield from self.within(child, kind)

  def variables(self, node: cst.CSTNode) -> Iterator:
    """Names and attributes below a node, without the last words of attributes and keywords."""
    for found in self.within(node, (cst.Name, cst.Attribute)):
      parent = self.parents.get(found)
      if not (isinstance(parent, cst.Attribute) and parent.attr is found) and \
          not (isinstance(parent, cst.Arg) and parent.keyword is found):
        yield found

  def line(self, node: cst.CSTNode) -> int:
    return self.positions[node].start.line

  def end_line(self, node: cst.CSTNode) -> int:
    return self.positions[node].end.line

  def above(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Parent, grandparent, and so on."""
    while (parent := self.parents.get(node)) is not None:
      yield parent
      node = parent

  def path(self, node: cst.CSTNode) -> list[tuple[cst.CSTNode, cst.CSTNode]]:
    """(block, statement of it) around a node, from the module to the innermost."""
    found, below = [], node
    for parent in self.above(node):
      if isinstance(parent, (cst.IndentedBlock, cst.Module)):
        found.append((parent, below))
      below = parent
    return found[::-1]

  def statement(self, node: cst.CSTNode) -> cst.CSTNode:
    """The innermost statement with a line of its own."""
    return self.path(node)[-1][1]

  def loops(self, node: cst.CSTNode) -> list[cst.For | cst.While]:
    """The loops around a node in its function, from the innermost."""
    found = []
    for parent in self.above(node):
      if isinstance(parent, (cst.FunctionDef, cst.Lambda)):
        break
      if isinstance(parent, (cst.For, cst.While)):
        found.append(parent)
    return found

  def scope(self, node: cst.CSTNode) -> str:
    """The function around a node; "" for the module."""
    for parent in self.above(node):
      if isinstance(parent, cst.FunctionDef) and id(parent) in self._scopes:
        return self._scopes[id(parent)]
    return ""

  def code(self, node: cst.CSTNode) -> str:
    return self.module.code_for_node(node)

  # Names.

  def _read_imports(self) -> None:
    for node in self.all(cst.Import):
      for alias in node.names:
        name = dotted_code(alias.name)
        if alias.asname is not None:
          self.imports[dotted_code(alias.asname.name)] = name
        else:
          self.imports[name.partition(".")[0]] = name.partition(".")[0]
    for node in self.all(cst.ImportFrom):
      base = ("." * len(node.relative)) + (dotted_code(node.module) if node.module else "")
      if isinstance(node.names, cst.ImportStar):
        continue
      for alias in node.names:
        name = dotted_code(alias.name)
        shown = dotted_code(alias.asname.name) if alias.asname is not None else name
        self.imports[shown] = f"{base}.{name}"

  def dotted(self, node: cst.BaseExpression) -> str:
    """The full name of what an expression refers to, such as torch.optim.SGD for optim.SGD; for
    what is not imported, as it is written."""
    text = dotted_code(node)
    head, dot, rest = text.partition(".")
    return self.imports.get(head, head) + dot + rest

  def called(self, call: cst.Call) -> str:
    return self.dotted(call.func)

  def calls(self, *names: str) -> list[cst.Call]:
    """Calls of functions with one of these last names."""
    return [call for call in self.all(cst.Call) if self.last_name(call) in names]

  def last_name(self, call: cst.Call) -> str:
    if isinstance(call.func, cst.Attribute):
      return call.func.attr.value
    return last(self.called(call))

  # Functions and classes.

  def _read_definitions(self) -> None:
    for node in self.all(cst.ClassDef):
      self.classes[node.name.value] = node
    for node in self.all(cst.FunctionDef):
      owner, outer, within = "", "", ""
      for parent in self.above(node):
        if isinstance(parent, cst.ClassDef):
          owner = within = parent.name.value
          break
        if isinstance(parent, cst.FunctionDef):
          outer = self._scopes[id(parent)]
          within = self.functions[outer].within
          break
      name = ".".join(part for part in (owner, outer, node.name.value) if part)
      every = [*node.params.posonly_params, *node.params.params]
      params = [param.name.value for param in every]
      extra = [param.name.value for param in node.params.kwonly_params]
      for star in (node.params.star_arg, node.params.star_kwarg):
        if isinstance(star, cst.Param):
          extra.append(star.name.value)
      function = Function(name, node, owner, within, params)
      function.local = set(params) | set(extra)
      function.defaults = {
          p.name.value for p in [*every, *node.params.kwonly_params]
          if isinstance(p.default, (cst.Integer, cst.Float, cst.SimpleString))
          or (isinstance(p.default, cst.Name) and p.default.value in ("None", "True", "False"))}
      self.functions[name] = function
      self._scopes[id(node)] = name
    for function in self.functions.values():
      function.local |= self._assigned_in(function.node.body, function.name)
      for node in self.within(function.node.body, cst.Global):
        function.local -= {item.name.value for item in node.names}

  def _assigned_in(self, body: cst.CSTNode, scope: str) -> set[str]:
    found = set()
    for node in self.within(body, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For,
                                   cst.AsName, cst.NamedExpr)):
      if self.scope(node) != scope:
        continue
      target = node.name if isinstance(node, cst.AsName) else node.target
      found |= {name.value for name in self.within(target, cst.Name)
                if not isinstance(self.parents.get(name), cst.Attribute)}
    return found

  def bases(self, name: str) -> list[str]:
    node = self.classes.get(name)
    return [self.dotted(base.value) for base in node.bases] if node else []

  def inherits(self, name: str, base: str, depth: int = 0) -> bool:
    return depth < 8 and any(last(b) == base or self.inherits(last(b), base, depth + 1)
                             for b in self.bases(name))

  def local_functions(self, call: cst.Call) -> list[Function]:
    """The functions of the script that a call may call."""
    if isinstance(call.func, cst.Name):
      name = call.func.value
      if name in self.classes:
        return [f for f in [self.functions.get(f"{name}.__init__")] if f]
      return [f for f in self.functions.values() if last(f.name) == name and not f.owner]
    if isinstance(call.func, cst.Attribute):
      method = call.func.attr.value
      found = [f for f in self.functions.values() if f.owner and last(f.name) == method]
      if dotted_code(call.func.value) == "self":
        own = self.functions.get(self.scope(call))
        mine = [f for f in found if own and f.owner == own.owner]
        return mine or found
      return found if method not in FLUENT and len(found) == 1 else []
    return []

  # Variables.

  def key(self, node: cst.BaseExpression, scope: str | None = None) -> Key | None:
    """The variable that an expression names: a name, or an attribute of an object of the script. An
    element of a container counts as the container."""
    scope = self.scope(node) if scope is None else scope
    if isinstance(node, cst.Subscript):
      return self.key(node.value, scope)
    if isinstance(node, cst.Name):
      return self.key_of(node.value, scope)
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
      function = self.functions.get(scope)
      if node.value.value == "self" and function is not None and function.within:
        return (f"class {function.within}", node.attr.value)
      owners = self.attributes[node.attr.value]
      return owners[0] if len(owners) == 1 and node.value.value not in self.imports else None
    return None

  def key_of(self, name: str, scope: str) -> Key | None:
    while True:
      function = self.functions.get(scope)
      if function is None:
        return ("", name) if name in self.module_names else None
      if name in function.local:
        return (scope, name)
      scope = scope.rpartition(".")[0] if not function.owner else ""

  def _read_attributes(self) -> dict[str, list[Key]]:
    """The attributes that are assigned to `self`, by name."""
    found: dict[str, list[Key]] = defaultdict(list)
    for kind in (cst.AssignTarget, cst.AnnAssign):
      for node in self.all(kind):
        for target in self.within(node.target, cst.Attribute):
          function = self.functions.get(self.scope(target))
          if dotted_code(target.value) == "self" and function is not None and function.within:
            key = (f"class {function.within}", target.attr.value)
            if key not in found[target.attr.value]:
              found[target.attr.value].append(key)
    return found

  def _read_flow(self) -> None:
    for node in self.all(cst.Assign):
      for target in node.targets:
        self._assign(target.target, node.value, node)
    for node in self.all(cst.AnnAssign):
      if node.value is not None:
        self._assign(node.target, node.value, node)
    for node in self.all(cst.NamedExpr):
      self._assign(node.target, node.value, node)
    for node in self.all(cst.WithItem):
      if node.asname is not None:
        self._assign(node.asname.name, node.item, node)
    for node in self.all(cst.Return):
      scope = self.scope(node)
      values = ([e.value for e in node.value.elements] if isinstance(node.value, cst.Tuple)
                else [node.value] if node.value is not None else [])
      for place, value in enumerate(values):
        self._link(value, (f"return {scope}", str(place)))
    for call in self.all(cst.Call):
      for function in self.local_functions(call):
        for name, value in self.passed(call, function):
          self._link(value, (function.name, name))

  def passed(self, call: cst.Call, function: Function) -> list[tuple[str, cst.BaseExpression]]:
    """(parameter, argument) of a call of a function of the script."""
    params = function.params[1:] if function.owner else function.params
    found = []
    for place, arg in enumerate(call.args):
      if arg.star:
        break
      if arg.keyword is not None:
        found.append((arg.keyword.value, arg.value))
      elif place < len(params):
        found.append((params[place], arg.value))
    return found

  def _assign(self, target: cst.BaseExpression, value: cst.BaseExpression,
              node: cst.CSTNode) -> None:
    if isinstance(target, (cst.Tuple, cst.List)):
      names = [element.value for element in target.elements]
      if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(names):
        for name, element in zip(names, value.elements):
          self._assign(name, element.value, node)
      elif isinstance(value, cst.Call):
        for function in self.local_functions(value):
          for place, name in enumerate(names):
            key = self.key(name)
            if key is not None:
              self.edges[f"return {function.name}", str(place)].add(key)
              self.assigned[key].append((node, value))
      return
    key = self.key(target)
    if key is not None:
      self.assigned[key].append((node, value))
      if (name := constant_index(target)) is not None:
        self.elements[key].append((name, value))
      self._link(value, key)

  def _link(self, value: cst.BaseExpression, key: Key) -> None:
    if isinstance(value, cst.IfExp):
      self._link(value.body, key)
      self._link(value.orelse, key)
      return
    if isinstance(value, (cst.Dict, cst.List)):
      for element in value.elements:
        if isinstance(element, cst.DictElement) and isinstance(element.key, cst.SimpleString):
          self.elements[key].append((element.key.evaluated_value, element.value))
        self._link(element.value, key)
      return
    if isinstance(value, (cst.DictComp, cst.ListComp)):
      self._link(value.value if isinstance(value, cst.DictComp) else value.elt, key)
      return
    source = self.key(value)
    if source is not None and source != key:
      self.edges[source].add(key)
    if not isinstance(value, cst.Call):
      return
    name = self.last_name(value)
    if isinstance(value.func, cst.Attribute) and name in FLUENT and \
        self.called(value) != "torch.compile":
      self._link(value.func.value, key)
    elif name in PASS_ON and value.args and not value.args[0].star:
      self._link(value.args[0].value, key)
    else:
      functions = [f for f in self.local_functions(value) if not f.name.endswith("__init__")]
      for function in functions:
        self.edges[f"return {function.name}", "0"].add(key)
      if not functions:
        self.made[key].add(id(value))

  def _spread(self) -> dict[Key, set[int]]:
    holds: dict[Key, set[int]] = defaultdict(set)
    for key, made in self.made.items():
      holds[key] |= made
    changed = True
    while changed:
      changed = False
      for source, targets in self.edges.items():
        for target in targets:
          if not holds[source] <= holds[target]:
            holds[target] |= holds[source]
            changed = True
    return holds

  def _read_parts(self) -> dict[Key, dict[str, set[int]]]:
    """What dictionaries may hold under each key that is written out."""
    parts: dict[Key, dict[str, set[int]]] = defaultdict(dict)
    for key, elements in self.elements.items():
      for name, value in elements:
        parts[key].setdefault(name, set()).update(self.held(value))
    changed = True
    while changed:
      changed = False
      for source, targets in self.edges.items():
        for target in targets if source in parts else ():
          for name, held in list(parts[source].items()):
            known = parts[target].setdefault(name, set())
            changed = changed or not held <= known
            known |= held
    return parts

  def downstream(self, key: Key) -> set[Key]:
    """The variables that may hold what `key` holds, itself included."""
    found, front = {key}, [key]
    while front:
      for target in self.edges.get(front.pop(), ()):
        if target not in found:
          found.add(target)
          front.append(target)
    return found

  def callers(self, function: str) -> list[cst.Call]:
    return [call for call in self.all(cst.Call)
            if any(f.name == function for f in self.local_functions(call))]

  def held(self, node: cst.BaseExpression) -> set[int]:
    """The calls whose results an expression may be."""
    if isinstance(node, cst.Call):
      name = self.last_name(node)
      if name in PASS_ON and node.args:
        return self.held(node.args[0].value)
      if isinstance(node.func, cst.Attribute) and name in FLUENT:
        return self.held(node.func.value)
      functions = [f for f in self.local_functions(node) if not f.name.endswith("__init__")]
      if not functions:
        return {id(node)}
      return set().union(*(self.holds.get((f"return {f.name}", "0"), set()) for f in functions))
    key = self.key(node)
    if key is None:
      return set()
    every, name = self.holds.get(key, set()), constant_index(node)
    parts = self.parts.get(key, {})
    if name not in parts:
      return every
    return every - set().union(*parts.values()) | parts[name]
