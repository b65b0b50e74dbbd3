#!/usr/bin/env python3
"""What a release needs; docs/releasing.md has the procedure.

  python3 cmake/release.py check v0.1.0    the tag, CMakeLists.txt and CHANGELOG.md agree
  python3 cmake/release.py notes v0.1.0    prints the version's section of CHANGELOG.md
  python3 cmake/release.py tag             checks, then makes the tag of the current version
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<date>\S+))?$", re.MULTILINE)


def version_of(cmake: str) -> str:
  return re.search(r"project\(stretto VERSION ([0-9.]+)", cmake)[1]


def sections(changelog: str) -> dict[str, tuple[str, str]]:
  """Version -> date (empty without one) and text."""
  found = list(HEADING.finditer(changelog))
  ends = [m.start() for m in found[1:]] + [len(changelog)]
  return {m["version"]: (m["date"] or "", changelog[m.end():end].strip())
          for m, end in zip(found, ends)}


def problems(tag: str, cmake: str, changelog: str) -> list[str]:
  """Why `tag` must not be released; nothing when it may."""
  version, known = version_of(cmake), sections(changelog)
  found = []
  if tag != f"v{version}":
    found.append(f"the tag is {tag}, CMakeLists.txt has version {version}")
  name = tag.removeprefix("v")
  if name not in known:
    return found + [f"CHANGELOG.md has no section `## [{name}] - date`"]
  date, text = known[name]
  if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
    found.append(f"CHANGELOG.md: [{name}] needs a date like 2026-01-31, it has {date or 'none'}")
  if not text:
    found.append(f"CHANGELOG.md: [{name}] is empty")
  if known.get("Unreleased", ("", ""))[1]:
    found.append("CHANGELOG.md: [Unreleased] still has entries")
  return found


def make_tag(version: str, notes: str) -> int:
  status = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True,
                          text=True)
  if status.stdout.strip():
    print("release: the working tree has changes; commit them first")
    return 1
  message = f"Stretto {version}\n\n{notes}\n"
  return subprocess.run(["git", "tag", "-a", f"v{version}", "--cleanup=verbatim", "-F", "-"],
                        cwd=ROOT, input=message, text=True).returncode


def main(arguments: list[str]) -> int:
  cmake, changelog = (ROOT / "CMakeLists.txt").read_text(), (ROOT / "CHANGELOG.md").read_text()
  verb, *rest = arguments or ["help"]
  if verb not in ("check", "notes", "tag") or len(rest) != (verb != "tag"):
    print(__doc__.strip())
    return 2
  tag = rest[0] if rest else f"v{version_of(cmake)}"
  found = problems(tag, cmake, changelog)
  for line in found:
    print(f"release: {line}", file=sys.stderr)
  if found:
    return 1
  notes = sections(changelog)[tag.removeprefix("v")][1]
  if verb == "notes":
    print(notes)
  return make_tag(tag.removeprefix("v"), notes) if verb == "tag" else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
