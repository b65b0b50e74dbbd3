"""The files that `stretto cluster compile --terraform` writes, and what their expressions name."""

import json
import re

from test_cluster_site import CASES

SITE = CASES / "sites/cloud.toml"
GOLDEN = CASES / "terraform"
CLOUDS = ("aws", "google")
FUNCTIONS = {"alltrue", "base64gzip", "can", "cidrhost", "coalesce", "concat", "contains", "file",
             "join", "jsonencode", "keys", "merge", "regex", "replace", "sha256", "sum"}
WORDS = {"for", "in", "null"}


def main_of(cloud):
  return json.loads((GOLDEN / cloud / "terraform/main.tf.json").read_text())


def expressions(text: str) -> list[str]:
  """The code in a template, each string in it replaced by ""; what stands in `${}` within those is
  an expression of its own. `$${` is a text."""
  found: list[str] = []

  def template(at: int, end: str) -> int:
    while at < len(text):
      if text.startswith("$${", at):
        at += 3
      elif text.startswith("${", at):
        at = code(at + 2)
      elif end and text[at] == "\\":
        at += 2
      elif end and text[at] == end:
        return at + 1
      else:
        at += 1
    assert not end, f"a string does not end: {text}"
    return at

  def code(at: int) -> int:
    depth, begin = 0, len(found)
    found.append("")
    own = ""
    while at < len(text):
      c = text[at]
      if c == '"':
        at, own = template(at + 1, '"'), own + '""'
      elif c == "}" and depth == 0:
        found[begin] = own
        return at + 1
      else:
        depth += (c == "{") - (c == "}")
        at, own = at + 1, own + c
    raise AssertionError(f"an expression does not end: {text}")

  template(0, "")
  return found


def strings(value, place=()):
  """Every text, with the keys that lead to it."""
  if isinstance(value, dict):
    for key, each in value.items():
      if key != "//":
        yield from strings(each, (*place, key))
  elif isinstance(value, list):
    for each in value:
      yield from strings(each, place)
  elif isinstance(value, str):
    yield place, value


def problems(main: dict) -> list[str]:
  """What an expression names and nothing defines."""
  resources = {f"{kind}.{name}" for kind, each in main["resource"].items() for name in each}
  resources |= {f"data.{kind}.{name}" for kind, each in main.get("data", {}).items()
                for name in each}
  known = resources | {f"var.{name}" for name in main["variable"]} | \
      {f"local.{name}" for name in main["locals"]} | {"path.module"}
  node = next(iter(main["locals"]["nodes"].values()))
  found = []
  for place, text in strings(main):
    if place[-1] in ("depends_on", "ignore_changes", "replace_triggered_by"):
      if place[-1] != "ignore_changes" and text not in resources:
        found.append(f"{place}: {text}")
      continue
    own = {"each.key", *(f"each.value.{key}" for key in node)} if place[0] == "resource" and \
        "for_each" in main["resource"][place[1]][place[2]] else set()
    own |= {"guest_accelerator.value"} if "guest_accelerator" in place else set()
    codes = expressions(text)
    names = {name.strip() for code in codes for group in re.findall(r"\bfor ([\w, ]+) in\b", code)
             for name in group.split(",")}
    for code in codes:
      for name, call in re.findall(r"(?<![\w.])([A-Za-z_][\w.]*)(\()?", code):
        head = name.split(".")[0]
        if call:
          ok = name in FUNCTIONS
        elif head in names:
          ok = "." not in name or name.split(".")[1] in {*node, "write_files", "content"}
        else:
          ok = name in WORDS or name in own or any(
            name == each or name.startswith(each + ".") for each in known) or \
            re.search(rf"\b{re.escape(name)} = ", code)
        if not ok:
          found.append(f"{place}: {name}")
  return found
