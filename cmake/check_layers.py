#!/usr/bin/env python3
"""Fails on an #include that goes around the layering table.

The table is the stretto_module lines of CMakeLists.txt: a module may include itself and what its
DEPS reach. The public interfaces (src/stretto/*.h) are for code above the library and for modules
that nobody depends on, because these implement them. cli/ and python/ may include everything.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULE = re.compile(r"^\s*stretto_module\(\s*(\w+)\s+DEPS([^)]*)\)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]stretto/([^">]+)[">]', re.MULTILINE)


def read_table(text: str) -> dict[str, set[str]]:
  table = {name: set(re.split("EMBED|LINK|TESTING|EXCEPT", deps)[0].split())
           for name, deps in MODULE.findall(text)}
  for name, deps in table.items():
    for dep in deps - table.keys():
      raise SystemExit(f"CMakeLists.txt: {name} depends on {dep}, which is no module")
  return table


def reachable(table: dict[str, set[str]], name: str, path: tuple[str, ...] = ()) -> set[str]:
  if name in path:
    raise SystemExit(f"CMakeLists.txt: modules in a circle: {' -> '.join((*path, name))}")
  return {name}.union(*(reachable(table, dep, (*path, name)) for dep in table[name]))


def problems(root: Path) -> list[str]:
  table = read_table((root / "CMakeLists.txt").read_text())
  allowed = {name: reachable(table, name) for name in table}
  used = set().union(*table.values())
  found = []
  source_root = root / "src" / "stretto"
  for path in sorted(p for p in source_root.rglob("*") if p.suffix in {".h", ".cc", ".c"}):
    parts = path.relative_to(source_root).parts
    if len(parts) == 1:
      continue
    module = parts[0]
    label = path.relative_to(root)
    if module not in table:
      found.append(f"{label}: {module} has no stretto_module line in CMakeLists.txt")
      continue
    for target in INCLUDE.findall(path.read_text(errors="replace")):
      other, slash, _ = target.partition("/")
      if not slash and module in used:
        found.append(f"{label}: {module} is below the public interface stretto/{target}")
      elif slash and other not in allowed[module]:
        found.append(f"{label}: {module} may not include stretto/{target}; "
                     f"its DEPS reach {', '.join(sorted(allowed[module] - {module})) or 'nothing'}")
  return found


def main() -> int:
  found = problems(ROOT)
  for line in found:
    print(line)
  print(f"layering: {len(found)} problem{'' if len(found) == 1 else 's'}")
  return 1 if found else 0


if __name__ == "__main__":
  sys.exit(main())
