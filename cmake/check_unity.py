#!/usr/bin/env python3
"""Fails where two files of a unity build define the same name in unnamed namespaces.

Such files are compiled as one, where the second definition is an error, while a build of single
files, which tests use, takes both. Usage: check_unity.py LIST, with a line `group<tab>file` for
every file; CMake writes the list (cmake/StrettoUnity.cmake). Names are those of types, constants
and functions at the margin, where clang-format puts all of them; functions may share a name if
their parameters differ.
"""

import re
import sys
from pathlib import Path

NAMED = re.compile(r"^namespace ([\w:]+) \{$")
TYPE = re.compile(r"^(?:struct|class|union|enum class|enum) (\w+)(?: final)?(?: :[^;]*)? ?[={]")
CONSTANT = re.compile(r"^(?:inline |static )*const(?:expr|init)? [^()]*?"
                      r"\b(k[A-Z]\w*)\s*(?:\[[^\]]*\]\s*)*[={]")
FUNCTION = re.compile(r"^(?!template|using|struct|class|enum|return|namespace|#|//)"
                      r"[\w:<>,&*\[\] ]+?[ &*](\w+)(\([^;{}]*\))(?: const| noexcept)* \{",
                      re.DOTALL)


def parameters(text: str) -> str:
  """Types and names of parameters without defaults and white space."""
  return re.sub(r"\s+|=[^,)]*", "", text)


def names(text: str) -> set[str]:
  """What the unnamed namespaces of a file define, each with the namespaces around it."""
  found, around, unnamed = set(), [], 0
  lines = text.splitlines()
  for number, line in enumerate(lines):
    if match := NAMED.match(line):
      around.append(match[1])
    elif line == "namespace {":
      around.append("")
      unnamed += 1
    elif line.startswith("}  // namespace"):
      if around:
        unnamed -= around.pop() == ""
    elif unnamed and line and not line[0].isspace() and line[0] not in "}#/":
      scope = "::".join(name for name in around if name)
      start = "\n".join(lines[number:number + 12])
      if match := TYPE.match(line) or CONSTANT.match(start):
        found.add(f"{scope}::{match[1]}")
      elif match := FUNCTION.match(start):
        found.add(f"{scope}::{match[1]}{parameters(match[2])}")
  return found


def main(listing: Path) -> int:
  first: dict[tuple[str, str], str] = {}
  problems = []
  for line in listing.read_text().splitlines():
    group, file = line.split("\t")
    for name in sorted(names(Path(file).read_text())):
      other = first.setdefault((group, name), file)
      if other != file:
        problems.append(f"{file}: {name} is also in {other}; "
                        f"a unity build of {group} takes both for one file, so rename one")
  print("\n".join(problems), end="\n" if problems else "")
  return 1 if problems else 0


if __name__ == "__main__":
  sys.exit(main(Path(sys.argv[1])))
