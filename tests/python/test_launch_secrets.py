"""How `stretto run` brings a job's secret to its ranks, here and on other hosts: never where other
users can read it."""

import os
import subprocess
import sys

import pytest
from conftest import free_port

# A guard against hanging for ever, not a statement about speed.
TIMEOUT_S = 120
SECRET = "STRETTO_SECRET"

# A rank that notes its secret and the command line of every process.
NOTES = """
import glob, os, sys
lines = []
for name in glob.glob("/proc/[0-9]*/cmdline"):
  try:
    lines.append(open(name, "rb").read().decode(errors="replace"))
  except OSError:
    pass
with open(f"{sys.argv[1]}/rank-{os.environ['RANK']}", "w") as file:
  file.write("\\n".join([os.environ.get("STRETTO_SECRET", ""), *lines]))
"""


def notes(tmp_path, *words, **more):
  """The secrets that the ranks saw, and all command lines that they could see."""
  (tmp_path / "notes.py").write_text(NOTES)
  done = subprocess.run([sys.executable, "-m", "stretto._launch", *words,
                         str(tmp_path / "notes.py"), str(tmp_path)],
                        env={**os.environ, **more}, timeout=TIMEOUT_S, capture_output=True,
                        text=True)
  assert done.returncode == 0, done.stderr
  seen = [file.read_text().split("\n", 1) for file in sorted(tmp_path.glob("rank-*"))]
  return [secret for secret, _ in seen], "\n".join(lines for _, lines in seen)


def fake(folder, name, text):
  folder.mkdir(exist_ok=True)
  (folder / name).write_text("#!/bin/bash\n" + text)
  (folder / name).chmod(0o755)
  return f"{folder}:{os.environ['PATH']}"


def fake_ssh(tmp_path):
  """A host of its own: nothing arrives there but the command line and standard input."""
  return fake(tmp_path / "bin", "ssh",
              f'printf "%s\\0" "$@" >> {tmp_path / "ssh-words"}\n'
              'exec env -i PATH="$PATH" bash -c "${@: -1}"\n')


@pytest.fixture(params=["torchrun", "own"])
def way(request, tmp_path):
  """Words that make the launcher go through torchrun, or start a program by itself."""
  if request.param == "own":
    path = tmp_path / "rank"
    path.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return ["--no-python", str(path)]
  pytest.importorskip("torch", reason="torchrun comes with torch")
  return []


@pytest.mark.parametrize("given", ["", "the user's own secret"])
def test_the_secret_was_missing_or_in_sight_on_this_machine(tmp_path, way, given):
  more = {SECRET: given} if given else {}
  secrets, lines = notes(tmp_path, "-n", "2", *way, **more)
  assert len(secrets) == 2 and len(set(secrets)) == 1 and len(secrets[0]) >= len(given) > -1
  assert secrets[0] == given or (not given and len(secrets[0]) == 64)
  assert "stretto._launch" in lines and secrets[0] not in lines


@pytest.mark.parametrize("given", ["", "the user's own secret"])
def test_the_secret_was_on_the_command_line_of_ssh(tmp_path, way, given):
  more = {"PATH": fake_ssh(tmp_path)} | ({SECRET: given} if given else {})
  port = ["--port", str(free_port())]
  secrets, lines = notes(tmp_path, *port, "-H", "127.0.0.1:1,127.0.0.2:1", *way, **more)
  assert len(secrets) == 2 and len(set(secrets)) == 1
  assert secrets[0] == given or (not given and len(secrets[0]) == 64)
  words = (tmp_path / "ssh-words").read_text()
  assert words.count("BatchMode=yes") == 2 and "stretto._remote" in lines
  assert secrets[0] not in words and secrets[0] not in lines and SECRET not in words


def test_two_jobs_have_two_secrets(tmp_path):
  program = tmp_path / "rank"
  program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
  program.chmod(0o755)
  secrets = {notes(tmp_path, "--no-python", str(program))[0][0] for _ in range(2)}
  assert len(secrets) == 2


def test_the_secret_was_not_passed_to_srun(tmp_path):
  path = fake(tmp_path / "bin", "scontrol", "printf 'node7\\n'\n")
  # The ranks of a step, whose place Slurm tells them.
  fake(tmp_path / "bin", "srun", f'printf "%s\\0" "$@" > {tmp_path / "srun-words"}\n'
       'while [[ $1 == -* ]]; do shift; done\n'
       'for r in 0 1; do SLURM_PROCID=$r SLURM_NTASKS=2 SLURM_LOCALID=$r "$@" & done; wait\n')
  secrets, lines = notes(tmp_path, PATH=path, SLURM_JOB_ID="1", SLURM_JOB_NODELIST="node7",
                         SLURM_NTASKS="2")
  words = (tmp_path / "srun-words").read_text()
  assert len(secrets) == 2 and len(set(secrets)) == 1 and len(secrets[0]) == 64
  assert "--export=ALL" in words and secrets[0] not in words + lines


