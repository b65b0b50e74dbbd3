from __future__ import annotations

import libcst as cst

from stretto.migrate._edits import Edits
from stretto.migrate._facts import Facts
from stretto.migrate._rule import Rule, Script

QUIET = "if dist.get_rank() > 0:\n    logging.disable(logging.INFO)\n"
END = "dist.destroy_process_group()"


def main_block(facts: Facts) -> cst.If | None:
  """`if __name__ == "__main__":` of the module."""
  for node in facts.module.body:
    if isinstance(node, cst.If) and "__name__" in facts.code(node.test) and \
        "__main__" in facts.code(node.test) and isinstance(node.body, cst.IndentedBlock):
      return node
  return None


def first_lines(script: Script, edits: Edits) -> list[str]:
  lines = ["start_ranks()"]
  edits.helpers.add("start_ranks")
  if edits.helpers & {"same_randomness", "same_randomness_numpy"}:
    lines.append("same_randomness()")
  if any(name.partition(".")[0] == "logging" for name in script.facts.imports.values()):
    lines.append(QUIET)
  return lines


def exits(facts: Facts, statement: cst.CSTNode) -> cst.Call | None:
  """`sys.exit(main())` as a whole statement."""
  for call in facts.within(statement, cst.Call):
    if facts.last_name(call) == "exit" and isinstance(facts.parents.get(call), cst.Expr):
      return call
  return None


def run(script: Script, edits: Edits) -> None:
  facts = script.facts
  main = main_block(facts)
  inside = {id(node) for node in facts.within(main, cst.CSTNode)} if main is not None else set()
  outside = [node for node in edits.touched
             if id(node) not in inside and not facts.scope(node)
             and not any(isinstance(p, cst.FunctionDef) for p in facts.above(node))]
  lines = first_lines(script, edits)
  if main is None:
    edits.at_top = lines
  elif outside:  # worker processes of loaders may import the module again
    edits.at_top = ["\n    ".join(['if __name__ == "__main__":',
                                  *"\n".join(lines).splitlines()]) + "\n"]
  else:
    first = main.body.body[0]
    edits.before[id(first)] = lines + edits.before[id(first)]
  end = main.body.body[-1] if main is not None else facts.module.body[-1]
  leaving = exits(facts, end)
  if leaving is not None and leaving.args:
    value = leaving.args[0].value
    edits.insert_before(end, f"code = {facts.code(value)}")
    edits.insert_before(end, END)
    edits.change(value, lambda _: cst.Name("code"))
  else:
    edits.insert_after(end, END)
  edits.did(main if main is not None else facts.module,
            "joins the ranks (init_process_group), and leaves them at the end")


RULE = Rule("start", "the beginning and the end of the script",
            "joins the ranks, selects the GPU by LOCAL_RANK, and leaves at the end", "", run)
