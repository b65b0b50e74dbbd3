"""Machines of a Terraform site get files and scripts that are well formed, join in spite of images
and mirrors that do not help, and have a configuration that Slurm takes."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_loopback import PATIENCE_S, Loopback, installed
from cluster_terraform import CLOUDS, GOLDEN, SITE, main_of

FILE = re.compile(r'\$\{file\("\$\{path\.module\}/([^"]+)"\)\}')


def filled(value, folder: Path):
  """A part of `locals` as Terraform would compute it, for sample values."""
  samples = {"var.user": "ann", "var.subnet": "10.77.0.0/20",
             "local.hosts": "10.77.0.10 controller\n", "local.controller_address": "10.77.0.10",
             "random_bytes.munge.base64": "QUJD", "var.ssh_public_key": "ssh-ed25519 AAAA ann@here"}
  if isinstance(value, dict):
    return {key: filled(each, folder) for key, each in value.items()}
  if isinstance(value, list):
    return [filled(each, folder) for each in value]
  if not isinstance(value, str):
    return value
  value = FILE.sub(lambda found: (folder / "terraform" / found[1]).read_text(), value)
  for name, text in samples.items():
    value = value.replace("${" + name + "}", text)
  return re.sub(r"_\$\{replace\(aws_ebs_volume[^}]*\}", "_vol0", value)


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("machine", ["controller", "node"])
def test_machines_get_a_whole_cloud_config(cloud, machine, tmp_path):
  yaml = pytest.importorskip("yaml", reason="no PyYAML: ./dev setup installs it")
  folder = GOLDEN / cloud
  config = filled(main_of(cloud)["locals"][machine], folder)
  assert yaml.safe_load("#cloud-config\n" + json.dumps(config)) == config
  files = {each["path"]: each for each in config["write_files"]}
  assert files["/etc/stretto/munge.key"]["permissions"] == "0400"
  script = f"/usr/local/sbin/stretto-{machine}"
  assert config["runcmd"] == [["bash", script]]
  (tmp_path / "script").write_text(files[script]["content"])
  subprocess.run(["bash", "-n", tmp_path / "script"], check=True, timeout=PATIENCE_S)
  checker = shutil.which("shellcheck", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
  assert checker, "no shellcheck: ./dev setup installs it"
  subprocess.run([checker, "--exclude=SC1091", tmp_path / "script"], check=True,
                 timeout=PATIENCE_S)
  subprocess.run(["bash", "-n", "-c", files["/etc/stretto/site.env"]["content"]], check=True,
                 timeout=PATIENCE_S)
  used = re.findall(r"(?:install .*|\. |rm )(/etc/stretto/[\w.]+)(?![\w./])",
                    files[script]["content"])
  assert len(used) >= 3 and set(used) <= set(files)
  assert not re.search(r"\$\{(?:var|local|file)\b", json.dumps(config))
  if machine == "controller":
    written = (folder / "slurm/slurm.conf").read_text()
    conf = files["/etc/stretto/slurm/slurm.conf"]["content"]
    assert conf == (folder / "terraform/head.conf").read_text() + written
    assert {"gres.conf", "job_submit.lua", "topology.conf"} <= {Path(p).name for p in files}
    assert "accounting.sh" not in str(list(files))
  else:
    assert files["/etc/stretto/site.env"]["content"].endswith("STRETTO_NODE=@NODE@\n")


# These do nothing here but say how they were called.
PROGRAMS = ("blockdev", "chown", "exportfs", "install", "mkfs.ext4", "mount", "scontrol",
            "systemctl", "timeout", "useradd")


class Machine:
  """A folder in which the scripts of a machine find its files, and programs that do nothing."""

  def __init__(self, folder: Path, machine: str, cloud="aws", hosts="127.0.0.1 localhost\n"):
    self.root, self.bin, self.machine = folder / "root", folder / "bin", machine
    self.bin.mkdir()
    for name in PROGRAMS:
      self.program(name)
    self.program("id", "exit 1")
    self.program("mountpoint", f'[ -e "{self.root}/mounted" ]')
    self.program("sleep")
    # The lock is held at first, and once a mirror fails.
    self.program("apt-get", f'echo "$*" >>"{self.root}/apt"; n=$(wc -l <"{self.root}/apt"); '
                 '[ "$n" != 1 ] && [ "$n" != 3 ]')
    self.write("/etc/hosts", hosts)
    self.write("/etc/fstab", "")
    self.write("/disk", "\0" * (1 << 20))
    for name in ("/etc/exports", "/etc/systemd/system/x", "/etc/munge/x", "/etc/default/x",
                 "/usr/local/sbin/x", "/var/x", "/shared/home/stretto/x"):
      self.write(name, "")
    for each in filled(main_of(cloud)["locals"][machine], GOLDEN / cloud)["write_files"]:
      text = each["content"].replace("@NODE@", "m0")
      if each["path"].startswith("/usr/local/sbin/"):
        text = re.sub(r"(?<![\w.])/(etc|shared|usr/local|var)(?=[/ ]|$)", rf"{self.root}/\1",
                      text, flags=re.MULTILINE)
      self.write(each["path"], text)
    env = self.file("/etc/stretto/site.env")
    env.write_text(re.sub("STRETTO_DISK=.*", f"STRETTO_DISK={self.root}/disk", env.read_text()))

  def file(self, path):
    return self.root / path.lstrip("/")

  def write(self, path, text):
    self.file(path).parent.mkdir(parents=True, exist_ok=True)
    self.file(path).write_text(text)
    self.file(path).chmod(0o755)

  def program(self, name, text=""):
    log = self.root / "calls"
    (self.bin / name).write_text(f'#!/bin/bash\necho "{name} $*" >>"{log}"\n{text}\n')
    (self.bin / name).chmod(0o755)

  def run(self, name):
    return subprocess.run(["bash", self.file(f"/usr/local/sbin/{name}")], capture_output=True,
                          text=True, timeout=PATIENCE_S,
                          env={"PATH": f"{self.bin}:{os.environ['PATH']}"})

  def names(self):
    self.run("stretto-hosts")
    lines = self.file("/etc/hosts").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]

  def calls(self):
    return self.file("calls").read_text().splitlines()


def test_images_that_name_the_machine_keep_no_name_away(tmp_path):
  """Debian's say manage_etc_hosts, which writes the machine's own name, at each start anew."""
  for name in ("controller", "node"):
    assert main_of("aws")["locals"][name]["manage_etc_hosts"] is False
  image = "127.0.1.1 controller controller\n127.0.0.1 localhost\n"
  machine = Machine(tmp_path, "controller", hosts=image)
  wanted = ["127.0.0.1 localhost", "10.77.0.10 controller"]
  assert machine.names() == wanted
  machine.file("/etc/hosts").write_text(machine.file("/etc/hosts").read_text() +
                                        "169.254.169.254 metadata # of the cloud\n")
  assert machine.names() == [wanted[0], "169.254.169.254 metadata # of the cloud", wanted[1]]


def test_a_node_knows_the_controller_and_later_all_others(tmp_path):
  machine = Machine(tmp_path, "node", hosts="127.0.1.1 m0\n127.0.0.1 localhost\n")
  first = ["127.0.0.1 localhost", "10.77.0.10 controller"]
  assert machine.names() == first
  machine.write("/etc/fstab", f"controller:/shared/home {machine.root}/shared/home nfs x 0 0\n")
  machine.write("/shared/home/.stretto/hosts", "10.77.0.10 controller\n10.77.0.20 m1\n")
  assert machine.names() == first, "the file server is not there yet"
  machine.write("/mounted", "")
  assert machine.names() == [*first, "10.77.0.20 m1"]
  machine.file("/mounted").unlink()
  machine.write("/etc/hosts", "127.0.0.1 localhost\n")
  assert machine.names() == [*first, "10.77.0.20 m1"], "the controller is away at a start"


@pytest.mark.parametrize("cloud", CLOUDS)
@pytest.mark.parametrize("machine", ["controller", "node"])
def test_a_machine_that_gets_no_packages_at_first_joins_all_the_same(cloud, machine, tmp_path):
  made = Machine(tmp_path, machine, cloud)
  made.write("/mounted", "")
  done = made.run(f"stretto-{machine}")
  assert done.returncode == 0, done.stderr
  assert done.stderr.count("apt-get has failed; again in 20 s") == 2
  assert len(made.file("/apt").read_text().splitlines()) == 5
  unit = {"controller": "slurmctld", "node": "slurmd"}[machine]
  assert f"systemctl restart munge {unit}" in made.calls()
  early = made.file("/etc/systemd/system/stretto-metadata.service").read_text()
  assert "Before=network-pre.target" in early, "users could read the key after a start"
  if machine == "controller":
    for name in ("slurmctld", "nfs-server"):
      text = made.file(f"/etc/systemd/system/{name}.service.d/stretto.conf").read_text()
      assert "[Unit]\nRequiresMountsFor=/shared\n" in text
    assert "ExecStartPre=+/bin/hostname controller" in made.file(
      "/etc/systemd/system/slurmctld.service.d/stretto.conf").read_text()


@pytest.mark.parametrize("data, formatted", [
  ("\0" * (1 << 20), True), ("\0" * 1080 + "S" + "\0" * (1 << 20), False), ("", False),
  ("\0" * 4096, False)])
def test_only_an_empty_disk_is_formatted(data, formatted, tmp_path):
  """One that can be read in part only is not known to be empty."""
  machine = Machine(tmp_path, "controller")
  machine.write("/disk", data)
  assert machine.run("stretto-controller").returncode == 0
  assert any("mkfs" in call for call in machine.calls()) is formatted


class Controller(Loopback):
  """The controller's own settings, but what needs root, other machines or minutes."""

  def __init__(self, folder: Path):
    super().__init__(folder, SITE.read_text())
    conf = folder / "etc/slurm.conf"
    theirs, written = conf.read_text().split("# Written by", 1)
    theirs = dict(line.split("=", 1) for line in theirs.splitlines())
    head = [line for line in (GOLDEN / "aws/terraform/head.conf").read_text().splitlines()
            if line and not line.startswith("#")]
    ours = dict(line.split("=", 1) for line in head)
    replaced = {"SlurmctldHost", "SlurmUser", "AuthType", "StateSaveLocation", "SlurmdSpoolDir",
                "SlurmctldPidFile", "SlurmdPidFile", "SlurmctldLogFile", "SlurmdLogFile"}
    assert replaced <= set(ours)
    added = {"SlurmdUser", "CredType", "SlurmctldPort", "SlurmdPort", "CommunicationParameters",
             "SlurmdParameters"}
    settings = {**ours, **{name: theirs[name] for name in (*replaced, *added)}}
    conf.write_text("".join(f"{k}={v}\n" for k, v in settings.items())
                    + "# Written by" + written)


@pytest.mark.skipif(not installed(), reason="Slurm is not installed: slurmctld, slurmd, sbatch")
def test_slurm_takes_the_configuration(tmp_path):
  """But how nodes get it: Slurm sends it only by munge."""
  cluster = Controller(tmp_path)
  try:
    cluster.must("slurmctld", "-i")
    (tmp_path / "spool/c0").mkdir()
    cluster.must("slurmd", "-N", "c0")
    assert "enable_configless" in cluster.must("scontrol", "show", "config")
    cluster.wait(lambda: "c0" in cluster.must("sinfo", "-h", "-N", "-t", "idle", "-o", "%N"))
    cluster.submit("-J", "hello", script="srun echo it ran")
    cluster.wait(lambda: any(b"it ran" in p.read_bytes()
                             for p in (tmp_path / "log").glob("hello-*.out")))
    assert "has no" in cluster.refusal("--gres=gpu:p100:1")
  finally:
    cluster.stop()
