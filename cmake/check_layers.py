#!/usr/bin/env python3
"""Fails on an #include that goes around the layering table.

The table is the stretto_module lines of CMakeLists.txt: a module may include itself and what its
DEPS reach. The public interfaces (src/stretto/*.h) are for code above the library and for modules
that nobody depends on, because these implement them. cli/ and python/ may include everything.

The stretto_room lines are the same for the folders of a module, its rooms. Once a module has one,
each of its folders needs one; a folder within a room belongs to it unless it has a line of its own.
Every room may include the headers that are directly in the module's folder, so these may include
none; sources beside them may include all. Tests have no other rights.
"""

import re
import sys
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
MODULE = re.compile(r"^\s*stretto_module\(\s*(\w+)\s+DEPS([^)]*)\)", re.MULTILINE)
ROOM = re.compile(r"^\s*stretto_room\(\s*(\w+)/([\w/]+)\s+DEPS([^)]*)\)", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]stretto/([^">]+)[">]', re.MULTILINE)

Table = dict[str, set[str]]


def check_names(table: Table, what: str) -> Table:
  for name, deps in table.items():
    for dep in deps - table.keys():
      raise SystemExit(f"CMakeLists.txt: {name} depends on {dep}, which is no {what}")
  return table


def read_modules(text: str) -> Table:
  return check_names({name: set(re.split("EMBED|LINK|TESTING|EXCEPT", deps)[0].split())
                      for name, deps in MODULE.findall(text)}, "module")


def read_rooms(text: str) -> dict[str, Table]:
  """By module."""
  rooms = {}
  for module, name, deps in ROOM.findall(text):
    rooms.setdefault(module, {})[name] = set(deps.split())
  return {module: check_names(table, f"room of {module}") for module, table in rooms.items()}


def reachable(table: Table, name: str, what: str, path: tuple[str, ...] = ()) -> set[str]:
  if name in path:
    raise SystemExit(f"CMakeLists.txt: {what} in a circle: {' -> '.join((*path, name))}")
  return {name}.union(*(reachable(table, dep, what, (*path, name)) for dep in table[name]))


def room_of(rooms: Table, folder: PurePosixPath) -> str | None:
  """The room of a folder, which is relative to its module's."""
  return next((str(f) for f in (folder, *folder.parents) if str(f) in rooms), None)


def refusal(who: str, target: str, reached: set[str]) -> str:
  reach = ", ".join(sorted(reached)) or "nothing"
  return f"{who} may not include stretto/{target}; its DEPS reach {reach}"


def room_problems(path: PurePosixPath, includes: list[str], module: str, rooms: Table) -> list[str]:
  """`path` is relative to the module's folder, `includes` to src/stretto."""
  name = room_of(rooms, path.parent)
  if name is None and len(path.parts) > 1:
    return [f"{module}/{path.parts[0]} has no stretto_room line in CMakeLists.txt"]
  allowed = reachable(rooms, name, f"rooms of {module}") if name else set()
  found = []
  for target in includes:
    if not target.startswith(f"{module}/"):
      continue
    other = room_of(rooms, PurePosixPath(target).relative_to(module).parent)
    if other is None:
      continue
    if name is None and path.suffix == ".h":
      found.append(f"every room of {module} may include this header, so it may include none, "
                   f"and not stretto/{target}")
    elif name is not None and other not in allowed:
      found.append(refusal(f"{module}/{name}", target, allowed - {name}))
  return found


def problems(root: Path) -> list[str]:
  text = (root / "CMakeLists.txt").read_text()
  table, rooms = read_modules(text), read_rooms(text)
  allowed = {name: reachable(table, name, "modules") for name in table}
  for module, own in rooms.items():
    for name in own:
      reachable(own, name, f"rooms of {module}")
  used = set().union(*table.values())
  source_root = root / "src" / "stretto"
  found = [f"CMakeLists.txt: there is no folder {module}/{name}"
           for module, own in rooms.items() for name in own
           if not (source_root / module / name).is_dir()]
  for path in sorted(p for p in source_root.rglob("*") if p.suffix in {".h", ".cc", ".c"}):
    parts = path.relative_to(source_root).parts
    if len(parts) == 1:
      continue
    module = parts[0]
    label = path.relative_to(root)
    if module not in table:
      found.append(f"{label}: {module} has no stretto_module line in CMakeLists.txt")
      continue
    includes = INCLUDE.findall(path.read_text(errors="replace"))
    for target in includes:
      other, slash, _ = target.partition("/")
      if not slash and module in used:
        found.append(f"{label}: {module} is below the public interface stretto/{target}")
      elif slash and other not in allowed[module]:
        found.append(f"{label}: {refusal(module, target, allowed[module] - {module})}")
    if module in rooms:
      within = room_problems(PurePosixPath(*parts[1:]), includes, module, rooms[module])
      found += [f"{label}: {problem}" for problem in within]
  return found


def main() -> int:
  found = problems(ROOT)
  for line in found:
    print(line)
  print(f"layering: {len(found)} problem{'' if len(found) == 1 else 's'}")
  return 1 if found else 0


if __name__ == "__main__":
  sys.exit(main())
