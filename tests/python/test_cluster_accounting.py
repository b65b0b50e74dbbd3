"""accounting.conf and accounting.sh of a site file with a real slurmdbd: shares and limits hold."""

import getpass
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cluster_loopback import PATIENCE_S, SBIN, Loopback, installed

ME = getpass.getuser()
SITE = f"""name = "Big_Lab"
[[nodes]]
names = "g[0-1]"
chip = "v100"
chips = 8
cores = 16
[[queues]]
name = "night"
priority = 10
[[queues]]
name = "day"
priority = 50
max_chips = 8
default = true
[[users]]
name = "{ME}"
share = 2.5
max_chips = 12
"""
DATABASE = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacctmgr")
missing = [name for name in DATABASE if shutil.which(name, path=SBIN) is None]
pytestmark = [
  pytest.mark.skipif(not installed(), reason="Slurm is not installed: slurmctld, slurmd, sbatch"),
  pytest.mark.skipif(bool(missing), reason=f"Slurm's database is not installed: {missing}")]


class WithDatabase(Loopback):
  """MariaDB and slurmdbd, then the cluster with accounting.conf before the file of the site."""

  def __init__(self, folder: Path):
    super().__init__(folder, SITE)
    self.children: list[subprocess.Popen] = []
    conf = folder / "etc/slurm.conf"
    first = int(re.search(r"^SlurmctldPort=(\d+)", conf.read_text(), re.M)[1])
    self.database, self.dbd = first + 14, first + 15  # of 16 that are free; nodes have the first
    own, written = conf.read_text().split("# Written by", 1)
    own = own.replace("AccountingStorageType=accounting_storage/none\n", "")
    shutil.copy(folder / "out/slurm/accounting.conf", folder / "etc")
    shutil.copy(folder / "out/slurm/accounting.sh", folder)
    conf.write_text(f"{own}AccountingStorageHost=localhost\nAccountingStoragePort={self.dbd}\n"
                    f"include accounting.conf\n# Written by{written}")

  def __enter__(self):
    try:
      self.start_database()
      return super().__enter__()
    except BaseException:
      self.stop()
      raise

  def start(self, *words) -> subprocess.Popen:
    log = open(self.folder / "log" / f"{Path(words[0]).name}.out", "wb")
    self.children.append(subprocess.Popen(words, env=self.environment, cwd=self.folder,
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log))
    log.close()
    return self.children[-1]

  def start_database(self) -> None:
    data, socket = self.folder / "db", self.folder / "db.sock"
    self.must("mariadb-install-db", "--no-defaults", f"--datadir={data}", f"--user={ME}",
              "--auth-root-authentication-method=normal", "--skip-test-db")
    self.start("mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={socket}",
               f"--port={self.database}", "--bind-address=127.0.0.1", f"--user={ME}",
               f"--pid-file={self.folder}/db.pid", "--innodb-buffer-pool-size=64M",
               "--innodb-lock-wait-timeout=900")
    self.wait_for(lambda: self.run("mariadb", "--no-defaults", f"--socket={socket}", "-uroot",
                                   "-e", "create user slurm@'%' identified by 'p'; "
                                   "grant all on *.* to slurm@'%'").returncode == 0)
    conf = self.folder / "etc/slurmdbd.conf"
    conf.touch(0o600)
    conf.write_text(f"""AuthType=auth/none
DbdHost=localhost
DbdPort={self.dbd}
SlurmUser={ME}
LogFile={self.folder}/log/slurmdbd.log
PidFile={self.folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={self.database}
StorageUser=slurm
StoragePass=p
StorageLoc=slurm
""")
    self.start("slurmdbd", "-D")
    self.wait_for(lambda: self.run("sacctmgr", "-nP", "show", "cluster").returncode == 0)

  def wait_for(self, what) -> None:
    end = time.monotonic() + PATIENCE_S
    while not what():
      assert time.monotonic() < end, self.output()
      time.sleep(0.2)

  def output(self) -> str:
    return "\n".join(path.read_text(errors="replace")[-2000:]
                     for path in sorted((self.folder / "log").iterdir()))

  def stop(self):
    super().stop()
    for child in reversed(self.children):
      child.terminate()
      try:
        child.wait(30)
      except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
  with WithDatabase(tmp_path_factory.mktemp("slurm")) as running:
    # slurmctld tells slurmdbd of its cluster when it starts.
    running.wait_for(lambda: running.must("sacctmgr", "-nP", "show", "cluster", "format=cluster"))
    running.must("sh", "accounting.sh")
    running.must("sh", "accounting.sh")  # and again, after a change of the site file
    yield running


def test_the_script_writes_accounts_shares_and_limits(cluster):
  lines = cluster.must("sacctmgr", "-nP", "show", "assoc", f"user={ME}",
                       "format=account,user,fairshare,grptres").splitlines()
  mine = [line for line in lines if not line.startswith("root|")]
  assert mine == [f"big_lab|{ME}|250|gres/gpu=12"], lines
  assert "day|gres/gpu=8" in cluster.must("sacctmgr", "-nP", "show", "qos",
                                          "format=name,grptres").splitlines()
  assert cluster.must("scontrol", "show", "config").count("slurmdbd") >= 1


def test_limits_hold_a_job_with_the_reason(cluster):
  cluster.submit("-A", "Big_Lab", "-J", "first", "-p", "night", "--gres=gpu:v100:8")
  cluster.submit("-A", "Big_Lab", "-J", "second", "-p", "night", "--gres=gpu:v100:8")
  cluster.wait(lambda: cluster.jobs()["first"][0] == "RUNNING")
  cluster.wait(lambda: "Grp" in cluster.must("squeue", "-h", "-n", "second", "-o", "%r"))
  cluster.empty()


def test_jobs_are_billed_by_chips(cluster):
  job = cluster.submit("-A", "Big_Lab", "-J", "bill", "--gres=gpu:v100:4")
  cluster.wait(lambda: cluster.jobs()["bill"][0] == "RUNNING")
  assert "billing=4" in cluster.must("scontrol", "-o", "show", "job", job)
  cluster.empty()
