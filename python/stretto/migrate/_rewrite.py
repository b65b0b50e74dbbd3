"""From the text of a script to that of the migrated one."""

from __future__ import annotations

import re

import libcst as cst

from stretto._errors import InvalidArgumentError
from stretto.migrate import Migrated
from stretto.migrate._edits import Apply, Edits, Finding
from stretto.migrate._facts import Facts, argument, dotted_code, last
from stretto.migrate._helpers import BEGIN, chosen
from stretto.migrate._rule import Script
from stretto.migrate._rules import RULES
from stretto.migrate._together import settle
from stretto.migrate._training import Training

# What only distributed scripts call, or libraries that distribute the training themselves.
DISTRIBUTED = {
  "init_process_group": "it calls init_process_group()",
  "DistributedDataParallel": "it uses DistributedDataParallel",
  "DistributedSampler": "it uses DistributedSampler",
  "fully_shard": "it uses FSDP",
  "FullyShardedDataParallel": "it uses FSDP",
  "Accelerator": "Hugging Face Accelerate distributes it",
}
LIBRARIES = {
  "horovod": "Horovod distributes it", "stretto.horovod": "Horovod's interface distributes it",
  "accelerate": "Hugging Face Accelerate distributes it", "deepspeed": "DeepSpeed distributes it",
  "lightning": "Lightning distributes it", "pytorch_lightning": "Lightning distributes it",
  "ray.train": "Ray distributes it", "transformers.Trainer": "the Trainer of Transformers "
  "distributes it", "colossalai": "Colossal-AI distributes it",
}


def distributed(facts: Facts) -> str:
  """Why a script counts as distributed; "" if it is not."""
  for name in facts.imports.values():
    for library, why in LIBRARIES.items():
      if name == library or name.startswith(library + "."):
        return why
  for call in facts.all(cst.Call):
    name = last(facts.called(call))
    if name in DISTRIBUTED:
      return f"{DISTRIBUTED[name]} in line {facts.line(call)}"
  return ""


def pinned(facts: Facts) -> list[Finding]:
  """Where a script tells a library that distributes it to use one device."""
  found = []
  for call in facts.calls("Trainer", "Fabric"):
    for name in ("devices", "gpus"):
      value = argument(call, name)
      if value is not None and re.fullmatch(r"1|\[\w+\]|[\"']1[\"']", facts.code(value)):
        found.append(Finding(facts.line(value), "library", f"{name}={facts.code(value)} keeps the "
                             "training on one device: leave it out, or give the number of devices "
                             "of a node, and num_nodes if there are several"))
  return found


def parsed(source: str) -> Facts:
  try:
    return Facts(source)
  except cst.ParserSyntaxError as error:
    raise InvalidArgumentError(f"line {error.raw_line}: this is no Python that libcst "
                               f"{version()} can read: {error.message}") from error
  except RecursionError as error:
    raise InvalidArgumentError("an expression of the script is nested too deeply") from error


def version() -> str:
  from importlib.metadata import version as installed
  return installed("libcst")


def rewrite(source: str, backend: str) -> Migrated:
  facts = parsed(source)
  why = distributed(facts)
  if why:
    return Migrated(source, distributed=why, by_hand=pinned(facts))
  training = Training(facts)
  if not training.points:
    raise InvalidArgumentError("the script has no backward(), so nothing in it trains with "
                               "PyTorch; give the file that has the training loop")
  script, edits = Script(facts, training), Edits(facts, training.needs_all)
  for rule in RULES:
    edits.rule = rule.name
    rule.run(script, edits)
  settle(facts, edits)
  tree = facts.module.visit(Apply(edits))
  text = with_helpers(tree, edits, backend).code
  compile(text, "<migrated>", "exec")  # a syntax error here is ours
  for found in (edits.done, edits.by_hand, edits.notes):
    found.sort(key=lambda item: (item.line, item.rule))
  return Migrated(text, "", edits.done, edits.by_hand, edits.notes)


def is_import(node: cst.CSTNode) -> bool:
  if isinstance(node, cst.SimpleStatementLine):
    return all(isinstance(part, (cst.Import, cst.ImportFrom)) for part in node.body)
  if isinstance(node, cst.Try):
    return all(is_import(n) or isinstance(n, cst.SimpleStatementLine) for n in node.body.body) and \
        any(is_import(n) for n in node.body.body)
  return False


def end_of_imports(body) -> int:
  """Behind the last import before the first definition, or the first call that may need what we
  put there."""
  place = 0
  for index, node in enumerate(body):
    if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.For, cst.While, cst.If, cst.With)):
      break
    if is_import(node):
      place = index + 1
  if place == 0 and body and isinstance(body[0], cst.SimpleStatementLine) and isinstance(
      body[0].body[0], cst.Expr):
    place = 1  # the docstring
  return place


def taken(facts: Facts) -> set[str]:
  """The names that the module has."""
  return set(facts.imports) | facts.module_names | set(facts.classes) | {
      function for function in facts.functions if "." not in function} | {
      name for function in facts.functions.values() for name in function.local}


def with_helpers(tree: cst.Module, edits: Edits, backend: str) -> cst.Module:
  imports, texts = chosen(edits.helpers, backend)
  for name in sorted(taken(edits.facts) & {*edits.helpers, "dist"}):
    if edits.facts.imports.get(name) not in ("torch.distributed",
                                             "torch.nn.parallel.DistributedDataParallel"):
      raise InvalidArgumentError(f"the script has a {name} of its own, which is the name of what "
                                 "stretto migrate would write; rename it first")
  for line in imports:
    name = line.split()[-1]
    of_script = name in taken(edits.facts)
    if line == f"import {name}" and of_script and edits.facts.imports.get(name) != name:
      raise InvalidArgumentError(f"the script has a {name} of its own, which would hide the module "
                                 f"{name} that stretto migrate imports; rename it first")
  body = list(tree.body)
  place = end_of_imports(body)
  # Imports of the same names in functions do not count.
  there = {line.strip() for node in body[:place] for line in tree.code_for_node(node).splitlines()}
  missing = [line for line in imports if line not in there and not named(edits.facts, line, there)]
  new: list[cst.BaseStatement] = [cst.parse_statement(line) for line in missing]
  blank = cst.EmptyLine(indent=False)
  for number, text in enumerate(texts):
    statement = cst.parse_module(text).body[0]
    comment = [cst.EmptyLine(comment=cst.Comment(BEGIN))] if number == 0 else []
    new.append(statement.with_changes(leading_lines=[blank, blank, *comment]))
  lines = [cst.parse_statement(line) for line in edits.at_top]
  if lines:
    lines[0] = lines[0].with_changes(leading_lines=[blank, blank])
  new += lines
  header, rest = tree.header, body[place:]
  if rest:
    least = 2 if isinstance(rest[0], (cst.FunctionDef, cst.ClassDef)) or not lines else 1
    own = list(rest[0].leading_lines)
    empty = next((i for i, line in enumerate(own) if line.comment is not None), len(own))
    rest[0] = rest[0].with_changes(leading_lines=[*[blank] * max(least - empty, 0), *own])
  return tree.with_changes(header=header, body=[*body[:place], *new, *rest])


def named(facts: Facts, line: str, there: set[str]) -> bool:
  """Whether the imports of the module have what an import line brings."""
  found = re.fullmatch(r"from (\S+) import (\S+)", line)
  full, name = (f"{found[1]}.{found[2]}", found[2]) if found else ("", "")
  if not found:
    words = line.split()
    full, name = words[1], words[-1]
    if name == "stretto.torch":
      return False
  at_module = any(isinstance(node, (cst.Import, cst.ImportFrom)) and not facts.scope(node)
                  and name in [dotted_code(a.asname.name if a.asname else a.name)
                               .partition(".")[0]
                               for a in (() if isinstance(node.names, cst.ImportStar)
                                         else node.names)]
                  for node in [*facts.all(cst.Import), *facts.all(cst.ImportFrom)])
  return at_module and facts.imports.get(name) == full
