"""SkyPilot's command by a stand-in (fake_sky.py), whose machines are folders of this one."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from cluster_slurm import PATIENCE_S, Cluster

HOSTILE = "x\n$(touch pwned)`touch pwned`\"'; touch pwned #: {y: [z]}\\ \x7f\u2028\U0001f600"


class Cloud(Cluster):

  def stretto(self, *words, code=0, **more):
    return self.run(words[0], "--backend", "cloud", *words[1:], code=code, **more)

  def job(self, *words, code=0, **more):
    return self.stretto("run", "--yes", *words, code=code, **more)

  @property
  def sky(self):
    return Path(self.environment["FAKE_SKY"])

  def argv(self):
    lines = (self.sky / "argv.log").read_text().splitlines()
    return [json.loads(line) for line in lines]

  def launches(self):
    return [words for words in self.argv() if "launch" in words and "--dryrun" not in words]


@contextlib.contextmanager
def clouds(tmp_path):
  for name in ("work", "bin", "sky"):
    (tmp_path / name).mkdir()
  fake = Path(__file__).with_name("fake_sky.py")
  for name in ("sky", "ssh"):
    (tmp_path / "bin" / name).write_text(f"#!{sys.executable}\n" + fake.read_text())
    (tmp_path / "bin" / name).chmod(0o755)
  for name in ("git", "sh", "bash", "env", "cat", "sleep", "touch"):
    (tmp_path / "bin" / name).symlink_to(shutil.which(name))
  (tmp_path / "bin/python3").symlink_to(sys.executable)
  made = Cloud(tmp_path / "state", tmp_path / "work",
               {"PATH": str(tmp_path / "bin"), "FAKE_SKY": str(tmp_path / "sky")})
  yield made
  for folder in (tmp_path / "sky").glob("clusters/*"):
    subprocess.run([tmp_path / "bin/sky", "down", "--yes", folder.name], env=made.environment,
                   check=True, timeout=PATIENCE_S)
  assert not [pid for pid in processes(made)], "processes are left"


def processes(cloud):
  """Of this test's machines, and of its commands."""
  found = []
  for entry in Path("/proc").iterdir():
    if entry.name.isdigit() and int(entry.name) != os.getpid():
      try:
        if f"FAKE_SKY={cloud.sky}".encode() in (entry / "environ").read_bytes().split(b"\0") and \
            (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
          found.append((int(entry.name), (entry / "cmdline").read_bytes()[:200]))
      except OSError:
        continue
  return found
