"""Writes the table of docs/errors.md from the code: classes, statuses of C and exit codes.

  python docs/site/errors.py --package build/dev/python
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from pathlib import Path

from command import cell, code, table

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/errors.md"
TITLES = ["situation", "C++", "Python", "C status", "exit code of `stretto`"]
CLASS = re.compile(r"^class (\w+) : public (std::\w+), public Error \{(.*?)^\};", re.M | re.S)
ACCESSOR = re.compile(r"(\w+)\(\) const \{ return \w+_; \}")
CLAUSE = re.compile(
  r"catch \(const (?:stretto::)?([\w:]+)&(?: \w+)?\) \{(.*?)(?=\} catch|\n\})", re.S)


def source(name: str) -> str:
  return (ROOT / name).read_text()


def caught(file: str, kind: str, pattern: str) -> str:
  """What matches in the first catch clause of a file that takes the C++ class `kind`."""
  body = next(body for name, body in CLAUSE.findall(source(file))
              if name in (kind, "std::exception"))
  return re.search(pattern, body)[0]


def c_status(kind: str) -> str:
  return caught("src/stretto/stretto_c_guard.h", kind, r"STRETTO_\w+")


def exit_code(kind: str) -> str:
  name = caught("cli/main.cc", kind, r"\bk(?:Ok|Failed|BadUsage|Environment)\b")
  return re.search(rf"\b{name} = (\d)", source("cli/verbs.h"))[1]


def article(name: str) -> str:
  return "an" if name[0] in "AEIOUaeiou" else "a"


def described(name: str, base: str, members: list[str]) -> str:
  return (f"{code(name)}, {article(base)} {code(base)}"
          + (f"; {', '.join(map(code, members))}" if members else ""))


def row(kind: str, base: str, body: str) -> list[str]:
  import stretto

  python = getattr(stretto, kind if kind.endswith("Error") else f"{kind}Error")
  text = inspect.getdoc(python)
  attributes = re.findall(r"^  (\w+):", text.partition("Attributes:\n")[2], re.M)
  return [cell(text.partition("\n\n")[0]),
          described(kind, base, [f"{name}()" for name in ACCESSOR.findall(body)]),
          described(python.__name__, python.__bases__[-1].__name__, attributes),
          code(c_status(kind)), exit_code(kind)]


def errors_table() -> str:
  rows = [row(*found) for found in CLASS.findall(source("src/stretto/base/error.h"))]
  rows.append(["This computer lacks memory.", "`std::bad_alloc`", "`MemoryError`",
               code(c_status("std::bad_alloc")), exit_code("std::bad_alloc")])
  return table(TITLES, rows)


def page() -> str:
  """docs/errors.md with its table written anew."""
  return re.sub(r"^\| situation .*?(?=\n\n)", lambda _: errors_table(), PAGE.read_text(),
                flags=re.M | re.S)


if __name__ == "__main__":
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--package", type=Path, required=True, help="folder of the built package")
  sys.path.insert(0, str(parser.parse_args().package.resolve()))
  PAGE.write_text(page())
