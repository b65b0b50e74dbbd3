"""Collects the repository's Markdown pages in one folder for MkDocs, with links that hold."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Folders and files whose pages the site shows, and where they stand in it.
SOURCES = {"docs": "", "bench": "bench", "SECURITY.md": "SECURITY.md", "HACKING.md": "HACKING.md",
           "CONTRIBUTING.md": "CONTRIBUTING.md", "CODE_OF_CONDUCT.md": "CODE_OF_CONDUCT.md",
           "CHANGELOG.md": "CHANGELOG.md"}
KINDS = {".md", ".svg", ".png"}
FENCE = re.compile(r"```.*?```", re.S)
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
GENERATED = ROOT / "docs/reference"  # written by build.py, so the repository does not have them


def pages() -> dict[Path, str]:
  """Every page or image of the repository, and its path in the site."""
  found = {}
  for source, place in SOURCES.items():
    root = ROOT / source
    files = [root] if root.is_file() else sorted(p for p in root.rglob("*") if p.suffix in KINDS)
    for path in files:
      found[path] = (Path(place) / path.relative_to(root)).as_posix() if root.is_dir() else place
  return found


def broken_links(path: Path) -> list[str]:
  """Relative links of a page that lead to no file of the repository."""
  found = []
  for target in links(path.read_text()):
    if is_external(target) or target.startswith("#"):
      continue
    file = (path.parent / target.partition("#")[0]).resolve()
    if not file.exists() and not file.is_relative_to(GENERATED):
      found.append(target)
  return found


def links(text: str) -> list[str]:
  return [match[2] for match in LINK.finditer(FENCE.sub("", text))]


def is_external(target: str) -> bool:
  return re.match(r"[a-z]+:", target) is not None


def relinked(text: str, path: Path, places: dict[Path, str], repository: str) -> str:
  """`text` of the page `path` with each relative link leading to the same file in the site or, when
  the site does not show it, to the repository."""

  def new_target(target: str) -> str:
    name, mark, anchor = target.partition("#")
    if is_external(target) or not name:
      return target
    file = (path.parent / name).resolve()
    place = places.get(file)
    if file.is_relative_to(GENERATED):
      place = file.relative_to(ROOT / "docs").as_posix()
    if place:
      return os.path.relpath(place, Path(places[path]).parent) + mark + anchor
    if not file.exists():
      raise SystemExit(f"{path.relative_to(ROOT)}: no file {target}")
    kind = "tree" if file.is_dir() else "blob"
    return f"{repository}/{kind}/main/{file.relative_to(ROOT).as_posix()}{mark}{anchor}"

  fences = [match.span() for match in FENCE.finditer(text)]

  def replace(match: re.Match) -> str:
    if any(begin <= match.start() < stop for begin, stop in fences):
      return match[0]
    return match[1] + new_target(match[2]) + match[3]

  return LINK.sub(replace, text)


def collect(target: Path, repository: str) -> None:
  """Writes all pages below `target`, which is emptied first."""
  shutil.rmtree(target, ignore_errors=True)
  places = pages()
  for path, place in places.items():
    file = target / place
    file.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".md":
      file.write_text(relinked(path.read_text(), path, places, repository))
    else:
      shutil.copyfile(path, file)
