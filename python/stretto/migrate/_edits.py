"""The changes that the rules ask for, and how they are made in the tree."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import libcst as cst

from stretto.migrate._facts import Facts, Key

Change = Callable[[cst.CSTNode], cst.CSTNode]
# Helpers in which all ranks meet.
MEETING = ("sum_of_ranks", "mean_of_ranks", "rank_0_decides", "value_of_rank_0")


@dataclass(frozen=True)
class Finding:
  """What a rule did at a line, or what somebody else has to decide there."""
  line: int
  rule: str
  text: str


@dataclass(frozen=True)
class Around:
  """A call of a helper around an expression."""
  helper: str

  @property
  def meets(self) -> bool:
    return self.helper in MEETING

  def __call__(self, current: cst.CSTNode) -> cst.CSTNode:
    if isinstance(current, cst.Call) and isinstance(current.func, cst.Name) and \
        current.func.value == self.helper:
      return current
    return cst.Call(func=cst.Name(self.helper), args=[cst.Arg(current)])


@dataclass(frozen=True)
class Under:
  """A statement that goes under a line."""
  statement: cst.CSTNode
  node: cst.CSTNode  # for which a rule asked
  rule: str


@dataclass
class Edits:
  facts: Facts
  needs_all: Callable[[cst.CSTNode], bool]  # whether a part of the script has to run on all ranks
  rule: str = ""  # whose turn it is
  changes: dict[int, list[Change]] = field(default_factory=lambda: defaultdict(list))
  before: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
  after: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
  heads: dict[int, str] = field(default_factory=dict)  # statement -> the line that it goes under
  under: list[Under] = field(default_factory=list)
  meetings: list[cst.CSTNode] = field(default_factory=list)  # where lines with collectives come
  shared: dict[int, cst.CSTNode] = field(default_factory=dict)  # values in which ranks meet
  removed: set[int] = field(default_factory=set)
  helpers: set[str] = field(default_factory=set)
  touched: list[cst.CSTNode] = field(default_factory=list)
  at_top: list[str] = field(default_factory=list)  # lines behind the imports
  done: list[Finding] = field(default_factory=list)
  by_hand: list[Finding] = field(default_factory=list)
  notes: list[Finding] = field(default_factory=list)

  def change(self, node: cst.CSTNode, change: Change, *helpers: str, ranks: bool = True) -> None:
    """`change` gets the node as earlier rules have left it. `ranks`: what it makes of it needs
    torch.distributed."""
    self.changes[id(node)].append(change)
    if ranks:
      self.touched.append(node)
    self.helpers |= set(helpers)

  def call(self, node: cst.CSTNode, helper: str) -> None:
    """Puts a call of a helper around an expression, once."""
    self.change(node, Around(helper), helper)

  def together(self, node: cst.BaseExpression, helper: str) -> None:
    """Puts a helper around an expression in which all ranks meet."""
    self.shared[id(node)] = node
    self.call(node, helper)

  def apart(self, node: cst.BaseExpression) -> None:
    """Takes back what together() has asked for."""
    del self.shared[id(node)]
    self.changes[id(node)] = [c for c in self.changes[id(node)]
                              if not (isinstance(c, Around) and c.meets)]

  def rename_call(self, call: cst.Call, helper: str) -> None:
    self.change(call, lambda current: current.with_changes(func=cst.Name(helper)), helper)

  def insert_before(self, node: cst.CSTNode, text: str, *helpers: str) -> None:
    self._insert(self.before, node, text, helpers)

  def insert_after(self, node: cst.CSTNode, text: str, *helpers: str) -> None:
    self._insert(self.after, node, text, helpers)

  def _insert(self, where: dict[int, list[str]], node: cst.CSTNode, text: str,
              helpers: tuple[str, ...]) -> None:
    lines = where[id(self.facts.statement(node))]
    if re.search(r"_of_ranks\(|dist\.barrier\(", text):
      self.meetings.append(self.facts.statement(node))
    self.touched.append(node)
    if text not in lines:
      lines.append(text)
    self.helpers |= set(helpers)

  def put_under(self, node: cst.CSTNode, head: str, *helpers: str) -> bool:
    """Puts the statement around a node under `if ...:` or `with ...:`. False if all ranks have to
    run it together, if it sets variables that are read behind it, or if it, or a statement around
    it, is under another one already."""
    own = self.facts.statement(node)
    if self.needs_all(own) or (head.startswith("if ") and self.gives(own)):
      return False
    around = [s for _, s in self.facts.path(node)]
    if any(id(s) in self.heads for s in around):
      return self.heads.get(id(own)) == head or any(self.heads.get(id(s)) == head for s in around)
    self.heads[id(own)] = head
    self.under.append(Under(own, node, self.rule))
    self.touched.append(node)
    self.helpers |= set(helpers)
    return True

  def gives(self, statement: cst.CSTNode) -> bool:
    """Whether a statement sets variables that are read outside of it."""
    facts = self.facts
    inside = {id(n) for n in facts.variables(statement)}
    given: set[Key] = set()
    for node in facts.within(statement, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign,
                                         cst.NamedExpr)):
      keys = {facts.key(n) for n in facts.variables(node.target)}
      given |= {key for key in keys if key is not None}
    return bool(given) and any(facts.key(n) in given and id(n) not in inside
                               and not self.sets(n) for n in facts.variables(facts.module))

  def sets(self, node: cst.CSTNode) -> bool:
    """Whether a name gets a value here that does not depend on the one that it had."""
    parent = self.facts.parents.get(node)
    return isinstance(parent, (cst.AssignTarget, cst.AsName)) or (
        isinstance(parent, (cst.For, cst.CompFor, cst.AnnAssign)) and parent.target is node)

  def refuse(self, under: Under, why: str) -> None:
    """Takes back a put_under(), and lists it."""
    del self.heads[id(under.statement)]
    line = self.facts.line(under.node)
    self.done = [f for f in self.done if (f.line, f.rule) != (line, under.rule)]
    self.rule = under.rule
    self.leave(under.node, why)

  def did(self, node: cst.CSTNode, text: str) -> None:
    self._find(self.done, node, text)

  def leave(self, node: cst.CSTNode, text: str) -> None:
    """Somebody has to do this by hand."""
    self._find(self.by_hand, node, text)

  def note(self, node: cst.CSTNode, text: str) -> None:
    self._find(self.notes, node, text)

  def _find(self, where: list[Finding], node: cst.CSTNode, text: str) -> None:
    found = Finding(self.facts.line(node), self.rule, text)
    if found not in where:
      where.append(found)


class Apply(cst.CSTTransformer):
  """Makes the changes, from the leaves up."""

  def __init__(self, edits: Edits) -> None:
    super().__init__()
    self.edits = edits
    self.heads: dict[int, str] = {}  # of the statements that we made
    self.kept: list[cst.CSTNode] = []  # they live on, so that no other node gets their ids

  def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode):
    node = super().on_leave(original_node, updated_node)
    edits, number = self.edits, id(original_node)
    for change in edits.changes.get(number, ()):
      node = change(node)
    if isinstance(node, (cst.IndentedBlock, cst.Module)):
      node = node.with_changes(body=self.merged(node.body))
    if number in edits.removed:
      return cst.RemoveFromParent()
    if number in edits.heads:
      node = self.under(edits.heads[number], node)
    first = [cst.parse_statement(text) for text in edits.before.get(number, ())]
    later = [cst.parse_statement(text) for text in edits.after.get(number, ())]
    if not first and not later:
      return node
    if first:
      first[0] = first[0].with_changes(leading_lines=node.leading_lines)
      node = self.keep_head(node, leading_lines=())
    return cst.FlattenSentinel([*first, node, *later])

  def under(self, head: str, node: cst.BaseStatement) -> cst.BaseStatement:
    shell = cst.parse_statement(f"{head}\n  pass\n")
    made = shell.with_changes(body=cst.IndentedBlock([node.with_changes(leading_lines=())]),
                              leading_lines=node.leading_lines)
    self.heads[id(made)] = head
    self.kept.append(made)
    return made

  def keep_head(self, node: cst.BaseStatement, **changes) -> cst.BaseStatement:
    made = node.with_changes(**changes)
    if id(node) in self.heads:
      self.heads[id(made)] = self.heads[id(node)]
      self.kept.append(made)
    return made

  def merged(self, body):
    """Statements under the same line, one after the other, become one block."""
    result: list = []
    for node in body:
      head = self.heads.get(id(node))
      if head and result and self.heads.get(id(result[-1])) == head:
        before = result[-1]
        inner = [n.with_changes(leading_lines=node.leading_lines) if i == 0 else n
                 for i, n in enumerate(node.body.body)]
        joined = before.with_changes(body=before.body.with_changes(
            body=[*before.body.body, *inner]))
        self.heads[id(joined)] = head
        self.kept.append(joined)
        result[-1] = joined
      else:
        result.append(node)
    return result
