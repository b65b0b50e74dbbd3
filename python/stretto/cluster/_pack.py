"""The working tree that a job gets a copy of: in a Git repository its files that are tracked or not
ignored, elsewhere all that no .gitignore leaves out."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from stretto.cluster import _ignore
from stretto.cluster._host import ClusterError

LIMIT_MB = 256
GIT_S = 60.0
LARGEST_SHOWN = 3


class Tree(NamedTuple):
  root: Path
  files: list[tuple[str, Path]]  # name in the tree, and where it is
  size: int  # bytes
  inside: str  # the current folder, from the root


def git(root: Path, *words: str) -> bytes | None:
  """None: there is no Git, or no repository."""
  try:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, timeout=GIT_S,
                          stdin=subprocess.DEVNULL)
  except (OSError, subprocess.TimeoutExpired):
    return None
  return done.stdout if done.returncode == 0 else None


def root_of(folder: Path) -> tuple[Path, bool]:
  """The root of the tree, and whether Git knows it."""
  top = git(folder, "rev-parse", "--show-toplevel")
  if top is None:
    return folder, False
  root = Path(os.fsdecode(top.rstrip(b"\n")))
  # A folder that the repository around it ignores, such as one below build/, is a tree by itself.
  if root != folder and git(root, "check-ignore", "-q", "--", str(folder)) is not None:
    return folder, False
  return root, True


def names(root: Path, of_git: bool) -> Iterator[str]:
  if not of_git:
    yield from _ignore.walk(root)
    return
  listed = git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
  for name in sorted({os.fsdecode(n) for n in (listed or b"").split(b"\0") if n}):
    path = root / name
    if path.is_dir() and not path.is_symlink():  # a submodule, or a repository inside
      yield from (os.path.join(name, inner) for inner in names(path, git(path, "rev-parse") is not
                                                               None))
    else:
      yield name


def tree_of(folder: Path, limit_mb: int = LIMIT_MB) -> Tree:
  """The tree around the folder. ClusterError above the limit, with what takes most of it."""
  folder = folder.resolve()
  root, of_git = root_of(folder)
  files, size = [], 0
  largest: Counter[str] = Counter()
  for name in names(root, of_git):
    path = root / name
    try:
      status = os.lstat(path)
    except OSError:  # tracked, but removed
      continue
    files.append((name, path))
    size += status.st_size
    largest[name.split("/")[0]] += status.st_size
    if size > limit_mb << 20:
      what = ", ".join(f"{n} ({s >> 20} MB so far)" for n, s in largest.most_common(LARGEST_SHOWN))
      raise ClusterError(
        f"{root}: a job's copy of this tree would have more than {limit_mb} MB: {what}. Name what "
        "jobs do not need in .gitignore, start in a smaller folder, or allow more with "
        "--pack-limit MB")
  return Tree(root, files, size, os.path.relpath(folder, root))
