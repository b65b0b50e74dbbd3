"""What `stretto cluster compile --terraform` writes is what tests/cluster/terraform holds, refers
only to what it defines, and gives machines files and scripts that are well formed. Terraform itself
is no package of Debian or PyPI, so nothing here runs it.

  python tests/python/test_cluster_terraform.py      # writes the golden files anew
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_loopback import PATIENCE_S, Loopback, installed
from test_cluster_site import CASES, HOSTILE, ROOT, stretto, texts

SITE = CASES / "sites/cloud.toml"
GOLDEN = CASES / "terraform"
CLOUDS = ("aws", "google")
FUNCTIONS = {"alltrue", "base64gzip", "can", "cidrhost", "coalesce", "concat", "contains", "file",
             "join", "jsonencode", "keys", "merge", "regex", "replace", "sha256", "sum"}
WORDS = {"for", "in", "null"}
FILE = re.compile(r'\$\{file\("\$\{path\.module\}/([^"]+)"\)\}')


@pytest.mark.parametrize("cloud", CLOUDS)
def test_files_are_the_golden_ones(cloud, tmp_path):
  stretto("compile", SITE.relative_to(ROOT), "-o", tmp_path / "out", "--terraform", cloud)
  assert texts(tmp_path / "out") == texts(GOLDEN / cloud), \
      f"if that is right: python {Path(__file__).name}"


@pytest.mark.parametrize("cloud", CLOUDS)
def test_slurm_gets_what_it_gets_without_a_cloud(cloud, tmp_path):
  stretto("compile", SITE.relative_to(ROOT), "-o", tmp_path / "out", "--for", "slurm")
  ours = {name: text for name, text in texts(GOLDEN / cloud).items() if name.startswith("slurm/")}
  assert ours == {n: t for n, t in texts(tmp_path / "out").items() if n.startswith("slurm/")}


def main_of(cloud):
  return json.loads((GOLDEN / cloud / "terraform/main.tf.json").read_text())


def expressions(text: str) -> list[str]:
  """The code in a template, each string in it replaced by ""; what stands in `${}` within those is
  an expression of its own. `$${` is a text."""
  found: list[str] = []

  def template(at: int, end: str) -> int:
    while at < len(text):
      if text.startswith("$${", at):
        at += 3
      elif text.startswith("${", at):
        at = code(at + 2)
      elif end and text[at] == "\\":
        at += 2
      elif end and text[at] == end:
        return at + 1
      else:
        at += 1
    assert not end, f"a string does not end: {text}"
    return at

  def code(at: int) -> int:
    depth, begin = 0, len(found)
    found.append("")
    own = ""
    while at < len(text):
      c = text[at]
      if c == '"':
        at, own = template(at + 1, '"'), own + '""'
      elif c == "}" and depth == 0:
        found[begin] = own
        return at + 1
      else:
        depth += (c == "{") - (c == "}")
        at, own = at + 1, own + c
    raise AssertionError(f"an expression does not end: {text}")

  template(0, "")
  return found


def strings(value, place=()):
  """Every text, with the keys that lead to it."""
  if isinstance(value, dict):
    for key, each in value.items():
      if key != "//":
        yield from strings(each, (*place, key))
  elif isinstance(value, list):
    for each in value:
      yield from strings(each, place)
  elif isinstance(value, str):
    yield place, value


def problems(main: dict) -> list[str]:
  """What an expression names and nothing defines."""
  resources = {f"{kind}.{name}" for kind, each in main["resource"].items() for name in each}
  resources |= {f"data.{kind}.{name}" for kind, each in main.get("data", {}).items()
                for name in each}
  known = resources | {f"var.{name}" for name in main["variable"]} | \
      {f"local.{name}" for name in main["locals"]} | {"path.module"}
  node = next(iter(main["locals"]["nodes"].values()))
  found = []
  for place, text in strings(main):
    if place[-1] in ("depends_on", "ignore_changes", "replace_triggered_by"):
      if place[-1] != "ignore_changes" and text not in resources:
        found.append(f"{place}: {text}")
      continue
    own = {"each.key", *(f"each.value.{key}" for key in node)} if place[0] == "resource" and \
        "for_each" in main["resource"][place[1]][place[2]] else set()
    own |= {"guest_accelerator.value"} if "guest_accelerator" in place else set()
    codes = expressions(text)
    names = {name.strip() for code in codes for group in re.findall(r"\bfor ([\w, ]+) in\b", code)
             for name in group.split(",")}
    for code in codes:
      for name, call in re.findall(r"(?<![\w.])([A-Za-z_][\w.]*)(\()?", code):
        head = name.split(".")[0]
        if call:
          ok = name in FUNCTIONS
        elif head in names:
          ok = "." not in name or name.split(".")[1] in {*node, "write_files", "content"}
        else:
          ok = name in WORDS or name in own or any(
            name == each or name.startswith(each + ".") for each in known) or \
            re.search(rf"\b{re.escape(name)} = ", code)
        if not ok:
          found.append(f"{place}: {name}")
  return found


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_reference_is_to_something_that_exists(cloud):
  main = main_of(cloud)
  assert problems(main) == []
  for path in re.findall(r'file\(\\"\$\{path\.module\}/([^"\\]+)', json.dumps(main)):
    assert (GOLDEN / cloud / "terraform" / path).is_file(), path
  kinds = {kind.split("_")[0] for kind in main["resource"]}
  assert kinds == {cloud, "random", "terraform"}
  assert {"random", cloud} == set(main["terraform"]["required_providers"])


@pytest.mark.parametrize("old, new", [
  ("${var.user}", "${var.usr}"), ("local.cost_per_hour", "local.cost"),
  ("each.value.type", "each.value.typ"), ("cidrhost(", "cidr_host("),
  ("node.price", "nodes.price"), ("terraform_data.cost", "terraform_data.price")])
def test_the_check_finds_references_to_nothing(old, new):
  text = json.dumps(main_of("aws"))
  assert old in text
  assert problems(json.loads(text.replace(old, new)))


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


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nodes_with_chips_ask_for_an_image_with_their_driver(cloud, tmp_path):
  main = main_of(cloud)
  assert "default" not in main["variable"]["image"] and not main.get("data")
  (tmp_path / "site.toml").write_text('[[nodes]]\nnames = "c0"\n')
  stretto("compile", "site.toml", "-o", "out", "--terraform", cloud, cwd=tmp_path)
  plain = json.loads((tmp_path / "out/terraform/main.tf.json").read_text())
  assert "default" in plain["variable"]["image"] and problems(plain) == []


def test_only_the_controller_takes_ssh_and_machines_find_the_way_out():
  main = main_of("aws")
  groups = main["resource"]["aws_security_group"]
  assert [name for name, each in groups.items()
          if any(rule["to_port"] == 22 for rule in each["ingress"])] == ["login"]
  machines = main["resource"]["aws_instance"]
  site, login = "${aws_security_group.site.id}", "${aws_security_group.login.id}"
  assert machines["controller"]["vpc_security_group_ids"] == [site, login]
  assert machines["node"]["vpc_security_group_ids"] == [site]
  assert all("aws_route.out" in each["depends_on"] for each in machines.values())


def test_names_that_google_does_not_take_are_refused(tmp_path):
  def compiled(site, node, code):
    (tmp_path / "site.toml").write_text(f'name = "{site}"\n[[nodes]]\nnames = "{node}"\n')
    return stretto("compile", "site.toml", "-o", "out", "--terraform", "google", code=code,
                   cwd=tmp_path)

  compiled("a" * 45, "m0", 0)
  for kind, each in json.loads(
      (tmp_path / "out/terraform/main.tf.json").read_text())["resource"].items():
    assert all(len(body.get("name", "")) <= 63 for body in each.values()), kind
  assert "no name for a machine" in compiled("a" * 53, "m0", 1)
  assert "name of another one, lab-shared" in compiled("lab", "shared", 1)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_the_key_is_shown_nowhere(cloud):
  main = main_of(cloud)
  places = [place for place, text in strings(main) if "random_bytes" in text]
  assert len(places) == 2 and all(place[0] == "locals" for place in places)
  shown = json.dumps(main["output"])
  assert not re.search(r"local\.(controller|node)\b", shown.replace("controller_address", ""))


@pytest.mark.parametrize("cloud", CLOUDS)
def test_machines_are_tagged_and_made_only_below_the_limit(cloud):
  main = main_of(cloud)
  limit = main["resource"]["terraform_data"]["cost"]["lifecycle"]["precondition"]
  assert limit["condition"] == "${local.cost_per_hour <= var.most_per_hour}"
  assert not any("default" in main["variable"][name]
                 for name in ("hourly_prices", "most_per_hour", "allow_from"))
  for kind, each in main["resource"].items():
    for name, body in each.items():
      if kind.endswith("_instance"):
        assert "local.tags" in (body.get("tags") or body["labels"]), (kind, name)
        assert "terraform_data.cost" in body["depends_on"]
  assert main["locals"]["tags"] == {"stretto-site": "lab"}
  hosts = [node["host"] for node in main["locals"]["nodes"].values()]
  assert len(set(hosts)) == len(hosts) == 6 and 16 <= min(hosts) and max(hosts) < 4096


def test_a_node_that_is_added_leaves_the_machines_of_others_alone(tmp_path):
  found = []
  for names in ("m[0-9]", "a,b,m[0-9],z"):
    (tmp_path / "site.toml").write_text(f'[[nodes]]\nnames = "{names}"\n')
    stretto("compile", "site.toml", "-o", "out", "--terraform", "aws", cwd=tmp_path)
    main = json.loads((tmp_path / "out/terraform/main.tf.json").read_text())
    found.append({name: node["host"] for name, node in main["locals"]["nodes"].items()})
  assert found[1].items() >= found[0].items() and len(set(found[1].values())) == 13


def test_types_are_chosen_by_chips_cores_and_memory(tmp_path):
  def chosen(nodes, cloud="aws", code=0):
    (tmp_path / "site.toml").write_text(f'[[nodes]]\nnames = "a"\n{nodes}\n')
    out = stretto("compile", "site.toml", "-o", "out", "--terraform", cloud, code=code,
                  cwd=tmp_path)
    if code:
      return out
    main = json.loads((tmp_path / "out/terraform/main.tf.json").read_text())
    node = main["locals"]["nodes"]["a"]
    assert f'"{node["price"]}"' in main["variable"]["hourly_prices"]["validation"]["condition"]
    return node["type"], node["price"]

  assert chosen("cores = 2") == ("m6i.large", "m6i.large")
  assert chosen("cores = 3\nmemory_gb = 16")[0] == "m6i.2xlarge"  # 16 GB are not all usable
  assert chosen('chip = "V100"\nchips = 4\ncores = 8')[0] == "p3.8xlarge"
  assert chosen('chip = "v100"\nchips = 8', "google") == (
    "n1-standard-64", "n1-standard-64+8xnvidia-tesla-v100")
  assert chosen('chip = "k40"\nchips = 4\ninstance = "p2.8xlarge"')[0] == "p2.8xlarge"
  assert chosen('chip = "t4"\nchips = 2\ninstance = "n1-standard-16"', "google")[1] == \
    "n1-standard-16+2xnvidia-tesla-t4"
  unknown = chosen('chip = "k40"\nchips = 4', code=1)
  assert 'site.toml:1: no type of AWS that Stretto knows has 4 k40 (it knows 1 t4, 4 t4' in unknown
  assert 'name one with instance = "..."' in unknown
  assert "lower cores or memory_gb" in chosen('chip = "v100"\nchips = 8\ncores = 999', code=1)
  assert "leave it out" in chosen('address = "10.0.0.1"', code=1)
  assert "instance" in chosen('instance = "a b"', code=1)


def test_a_node_called_controller_and_names_that_meet_are_refused(tmp_path):
  for names, cloud in (("controller", "aws"), ("a_b,a-b", "google"), ("A,a", "google")):
    (tmp_path / "site.toml").write_text(f'[[nodes]]\nnames = "{names}"\n')
    assert "name of another one" in stretto("compile", "site.toml", "-o", "out", "--terraform",
                                            cloud, code=1, cwd=tmp_path)


def test_options_that_do_not_fit_together(tmp_path):
  for words in (["--for", "kubernetes"], ["--loopback-port", "20000"]):
    assert "leave out --for" in stretto("compile", SITE, "-o", tmp_path / "out", "--terraform",
                                        "aws", *words, code=2)
  assert "aws" in stretto("compile", SITE, "-o", tmp_path / "out", "--terraform", "moon", code=2)
  assert not (tmp_path / "out").exists()


def test_a_hostile_file_name_stays_a_text(tmp_path):
  name = (HOSTILE + "${file(\"/etc/passwd\")}%{if true}").replace("/", "") + ".toml"
  shutil.copy(SITE, tmp_path / name)
  stretto("compile", name, "-o", "out", "--terraform", "aws", cwd=tmp_path)
  main = json.loads((tmp_path / "out/terraform/main.tf.json").read_text())
  comment = main.pop("//")
  assert expressions(comment) == [] and "%%{" in comment
  clean = main_of("aws")
  clean.pop("//")
  assert main == clean
  head = (tmp_path / "out/terraform/head.conf").read_text().splitlines()
  assert [line for line in head if not line.startswith("#")] == [
    line for line in (GOLDEN / "aws/terraform/head.conf").read_text().splitlines()
    if not line.startswith("#")]


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


def main():
  os.environ.setdefault("STRETTO_BUILD", str(ROOT / "build/dev"))
  for cloud in CLOUDS:
    shutil.rmtree(GOLDEN / cloud, ignore_errors=True)
    GOLDEN.mkdir(exist_ok=True)
    stretto("compile", SITE.relative_to(ROOT), "-o", GOLDEN / cloud, "--terraform",
            cloud)


if __name__ == "__main__":
  sys.exit(main())
