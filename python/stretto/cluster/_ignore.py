"""Which files .gitignore leaves out, for folders that are no Git repository: the patterns of
gitignore(5)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ALWAYS = ("__pycache__/", ".git/", ".hg/", ".svn/", ".venv/", "venv/", "node_modules/",
          ".mypy_cache/", ".pytest_cache/", ".ruff_cache/", "*.pyc")


class Rule(NamedTuple):
  base: str  # the folder of the .gitignore, from the root, with a slash at its end or empty
  pattern: re.Pattern[str]
  keeps: bool  # a line with "!"
  folders_only: bool


def rule_of(line: str, base: str) -> Rule | None:
  text = re.sub(r"(?<!\\) +$", "", line.rstrip("\n\r"))
  if not text or text.startswith("#"):
    return None
  keeps = text.startswith("!")
  text = text[1:] if keeps else text
  text = text[1:] if text.startswith(("\\#", "\\!")) else text
  folders_only = text.endswith("/")
  text = text.rstrip("/") if folders_only else text
  if not text:
    return None
  anchored = "/" in text
  text = text.lstrip("/")
  expression = translate(text)
  try:
    return Rule(base, re.compile(expression if anchored else f"(?:.*/)?{expression}"), keeps,
                folders_only)
  except re.error:  # such as [z-a], which matches nothing
    return None


def translate(text: str) -> str:
  """A pattern of Git as a regular expression for a path without a leading slash."""
  out, i = "", 0
  while i < len(text):
    if text.startswith("**/", i) and (i == 0 or text[i - 1] == "/"):
      out, i = out + "(?:.*/)?", i + 3
    elif text[i:] == "**" and (i == 0 or text[i - 1] == "/"):
      out, i = out + ".+", i + 2
    elif text[i] == "*":
      while i < len(text) and text[i] == "*":
        i += 1
      out += "[^/]*"
    elif text[i] == "?":
      out, i = out + "[^/]", i + 1
    elif text[i] == "[" and (end := text.find("]", i + 2)) > 0:
      inner = text[i + 1:end].replace("\\", "\\\\").replace("[", "\\[")
      inner = "^" + inner[1:] if inner[0] in "!^" else inner
      out, i = out + f"(?!/)[{inner}]", end + 1
    else:
      if text[i] == "\\" and i + 1 < len(text):
        i += 1
      out, i = out + re.escape(text[i]), i + 1
  return out


def ignored(path: str, is_folder: bool, rules: list[Rule]) -> bool:
  """The last rule that matches decides."""
  for rule in reversed(rules):
    if path.startswith(rule.base) and (is_folder or not rule.folders_only) and \
        rule.pattern.fullmatch(path[len(rule.base):]):
      return not rule.keeps
  return False


def walk(root: Path) -> Iterator[str]:
  """Paths of the files that are not ignored, sorted within their folder."""
  always = [rule for line in ALWAYS if (rule := rule_of(line, ""))]
  yield from below(root, "", always)


def below(root: Path, inside: str, rules: list[Rule]) -> Iterator[str]:
  own = root / inside / ".gitignore"
  if own.is_file():
    lines = own.read_text(errors="surrogateescape").splitlines()
    rules = rules + [rule for line in lines if (rule := rule_of(line, inside))]
  with os.scandir(root / inside) as entries:
    found = sorted(entries, key=lambda entry: entry.name)
  for entry in found:
    path = inside + entry.name
    is_folder = entry.is_dir(follow_symlinks=False)
    if ignored(path, is_folder, rules):
      continue
    if is_folder:
      yield from below(root, path + "/", rules)
    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):  # no sockets, no pipes
      yield path
