"""`stretto cluster compile SITE --check` compares a site file with what scontrol and kubectl print,
of every version of Slurm in tests/cluster/slurm, and changes nothing. test_cluster_policy.py
compares with a slurmctld that runs."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from cluster_loopback import program

from stretto.cluster import _slurm_output

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests/cluster"
SITE = ROOT / "examples/cluster/three_kinds.toml"
VERSIONS = sorted(path.name for path in (CASES / "slurm").iterdir() if path.is_dir())


def check(*words, code=0, site=SITE, env=None, **how):
  done = subprocess.run([program(), "cluster", "compile", str(site), "--check", *map(str, words)],
                        capture_output=True, text=True, timeout=120, env=env or os.environ, **how)
  assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
  return done


def line_of(text: str) -> int:
  lines = SITE.read_text().splitlines()
  return next(i for i, line in enumerate(lines, 1) if line.startswith(text))


def saved(folder: Path, version="22.05", **changes) -> Path:
  """A copy of a version's texts in which `old` became `new`, by file."""
  shutil.copytree(CASES / "slurm" / version, folder, dirs_exist_ok=True)
  for name, (old, new) in changes.items():
    path = folder / f"{name}.txt"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
  return folder


def test_there_are_all_versions():
  assert VERSIONS == ["22.05", "23.02", "23.11", "24.05", "24.11", "25.05", "25.11"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_slurm_is_read(version, tmp_path):
  folder = CASES / "slurm" / version
  done = check("--from", folder)
  assert done.stdout == "" and "no differences" in done.stderr
  changed = saved(tmp_path / "changed", version, config=("= REQUEUE", "= CANCEL"),
                  partition=("PriorityTier=1 ", "PriorityTier=3 "), node=("Weight=1 ", "Weight=9 "),
                  reservation=("Flags=MAINT,", "Flags="))
  lines = check("--from", changed, code=1).stdout.splitlines()
  normal = line_of("[[groups]]")
  assert f"{SITE}:{line_of('[preemption]')}: slurm.conf: PreemptMode is CANCEL, expected REQUEUE" \
      in lines
  assert f"{SITE}:{normal}: partition normal.single.spare: PriorityTier is 3, expected 1" in lines
  assert any(line.endswith("node r0: Weight is 9, expected 1") for line in lines)
  assert f"{SITE}:{line_of('[reserve]')}: reservation repair: Nodes s1, the site file has none" \
      in lines
  assert len(lines) == 6, lines  # the spare partitions are three


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_of_squeue_and_sinfo_is_read(version):
  folder = CASES / "slurm" / version
  rows = {row.id: row for row in _slurm_output.rows((folder / "squeue.txt").read_text())}
  states = {id_: row.state for id_, row in rows.items()}
  assert states == {"1": "running", "2": "pending", "3": "running", "4+0": "pending",
                    "4+1": "pending", "6_1": "running", "6_2": "running", "6_3": "running"}
  assert rows["1"].chips == "v100:8" and rows["1"].nodes == 2 and rows["1"].name == "one"
  assert rows["4+0"].chips == "k40:4" and rows["4+0"].reason == "JobHeldUser"
  assert rows["3"].chips == "" and rows["1"].reason == ""
  gres = _slurm_output.gres_of((folder / "sinfo.txt").read_text())
  assert gres == {"v100": ("gpu:v100", {"m0": 8, "m1": 8, "r0": 8}),
                  "k40": ("gpu:k40", {"s0": 4, "s1": 4})}
  assert _slurm_output.has_reserved_ports((folder / "config.txt").read_text()) is False


def test_the_jobs_of_sacct_are_simulated():
  """What ran: neither steps, nor jobs that wait or were cancelled before they began."""
  done = subprocess.run([program(), "cluster", "simulate", SITE, "--trace", CASES /
                         "slurm/sacct.txt", "--json"], capture_output=True, text=True, timeout=120)
  assert done.returncode == 0, done.stderr
  result = json.loads(done.stdout)
  assert result["format"] == "sacct" and result["jobs"] == 6


def test_json_has_the_differences(tmp_path):
  assert json.loads(check("--from", CASES / "slurm/22.05", "--json").stdout) == {
    "site": "lab", "compared": ["slurm"], "differences": []}
  folder = saved(tmp_path / "saved", partition=("PartitionName=urgent.multi ",
                                                "PartitionName=spare.multi "),
                 node=("CPUTot=16", "CPUTot=32"))
  found = json.loads(check("--from", folder, "--json", code=1).stdout)["differences"]
  lines = SITE.read_text().splitlines()
  nodes = [i for i, line in enumerate(lines, 1) if line == "[[nodes]]"]
  assert found == [
    {"scheduler": "slurm", "what": "nodes m[0-1]", "key": "CPUTot", "expected": "16",
     "found": "32", "line": nodes[1]},
    {"scheduler": "slurm", "what": "node r0", "key": "CPUTot", "expected": "16", "found": "32",
     "line": nodes[2]},
    {"scheduler": "slurm", "what": "partition urgent.multi", "key": None,
     "expected": "a partition", "found": None, "line": line_of("[[queues]]")},
    {"scheduler": "slurm", "what": "partition spare.multi", "key": "Nodes", "expected": None,
     "found": "m[0-1],r0", "line": None},
  ]


def kubernetes_list() -> dict:
  """What kubectl prints after what compile writes was applied."""
  yaml = pytest.importorskip("yaml", reason="no PyYAML: ./dev setup installs it")
  items = [document for path in sorted((CASES / "golden/three_kinds/kubernetes").glob("*.yaml"))
           for document in yaml.safe_load_all(path.read_text()) if document]
  for item in items:
    item["metadata"]["uid"] = "1"
    if item["kind"] == "ClusterQueue":
      item["spec"]["stopPolicy"] = "None"
  script = (CASES / "golden/three_kinds/kubernetes/label-nodes.sh").read_text()
  chips = {"k40": "4", "v100": "8"}
  for line in script.splitlines():
    if line.startswith("kubectl label"):
      _, _, _, _, name, *labels = line.split()
      labels = dict(label.split("=") for label in labels)
      items.append({"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {
        "capacity": {"nvidia.com/gpu": chips[labels["stretto/chip"]]}}})
  return {"apiVersion": "v1", "kind": "List", "items": items}


def fake(folder: Path, **programs) -> dict:
  """An environment in whose PATH are only these shell scripts."""
  folder.mkdir()
  for name in ("sh", "cat", "sleep", "echo"):
    (folder / name).symlink_to(shutil.which(name))
  for name, text in programs.items():
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)
  return os.environ | {"PATH": str(folder)}


def test_kubectl_is_asked_once_and_only_reads(tmp_path):
  answer = tmp_path / "answer.json"
  answer.write_text(json.dumps(kubernetes_list()))
  env = fake(tmp_path / "bin", kubectl=f'echo "$@" >> {tmp_path}/asked\ncat {answer}')
  assert "no differences" in check(env=env).stderr
  asked = (tmp_path / "asked").read_text().splitlines()
  assert len(asked) == 1 and asked[0].startswith("get -A -o json --request-timeout="), asked
  changed = kubernetes_list()
  queue = next(item for item in changed["items"] if item["kind"] == "ClusterQueue")
  queue["spec"]["stopPolicy"] = "Hold"
  queue["spec"]["cohortName"] = "x"
  (tmp_path / "kubernetes.json").write_text(json.dumps(changed))
  lines = check("--from", tmp_path, code=1).stdout.splitlines()
  at = line_of("[[groups]]")
  assert lines == [f"{SITE}:{at}: ClusterQueue lab-single: spec.cohortName is x, expected lab",
                   f"{SITE}:{at}: ClusterQueue lab-single: spec.stopPolicy is Hold, expected not "
                   "set"]


def test_differences_of_kubernetes_read_without_the_manifests(tmp_path):
  """Each line names the object, the field, what is there and what is expected."""
  changed = kubernetes_list()
  items = {(item["kind"], item["metadata"]["name"]): item for item in changed["items"]}
  queue = items["ClusterQueue", "lab-single"]["spec"]
  flavors = queue["resourceGroups"][0]["flavors"]
  flavors[0]["resources"][2]["nominalQuota"] = 4
  del flavors[2]
  del items["Node", "s0"]["metadata"]["labels"]["stretto/group"]
  items["Node", "s1"]["status"]["capacity"]["nvidia.com/gpu"] = "3"
  items["WorkloadPriorityClass", "urgent"]["metadata"]["name"] = "other"
  guest = json.loads(json.dumps(items["ClusterQueue", "lab-multi"]))
  guest["metadata"]["name"] = "guests"
  changed["items"].append(guest)
  (tmp_path / "kubernetes.json").write_text(json.dumps(changed))
  lines = check("--from", tmp_path, code=1).stdout.splitlines()
  single, flavor = line_of("[[groups]]"), "spec.resourceGroups[0].flavors"
  assert lines == [
    f"{SITE}:{line_of('[[queues]]')}: WorkloadPriorityClass urgent: is missing in Kubernetes",
    f"{SITE}:{single}: ClusterQueue lab-single: {flavor}[single-k40].resources[nvidia.com/gpu]."
    "nominalQuota is 4, expected 8",
    f"{SITE}:{single}: ClusterQueue lab-single: {flavor}[reserve-v100] is missing",
    f"{SITE}:{single}: Node s0: metadata.labels.stretto/group is not set, expected single",
    f"{SITE}:{line_of('[[nodes]]')}: Node s1: status.capacity.nvidia.com/gpu is 3, expected 4",
    "ClusterQueue guests: borrows and lends in cohort lab, the site file has none",
  ]


def test_scontrol_is_asked_to_show_and_nothing_else(tmp_path):
  texts = CASES / "slurm/22.05"
  env = fake(tmp_path / "bin", scontrol=f'echo "$@" >> {tmp_path}/asked\ncat {texts}/$4.txt')
  assert "no differences" in check(env=env).stderr
  assert (tmp_path / "asked").read_text().splitlines() == [
    f"-a -o show {what}" for what in ("config", "partition", "node", "reservation")]


def test_hidden_partitions_are_seen(tmp_path):
  texts = saved(tmp_path / "texts")
  hidden = "PartitionName=backdoor Hidden=YES Nodes=m0 State=UP"
  env = fake(tmp_path / "bin", scontrol=f"""
case "$*" in *partition) case "$*" in *-a*) echo '{hidden}' ;; esac ;; esac
for what; do :; done
cat {texts}/$what.txt""")
  assert check(env=env, code=1).stdout == "partition backdoor: Nodes m0, the site file has none\n"


@pytest.mark.parametrize("script, words, message", [
  ("echo 'slurm_load_ctl_conf error: Unable to contact slurm controller' >&2; exit 1", (),
   "`scontrol -a -o show config` exited with code 1: slurm_load_ctl_conf error: Unable to contact"),
  ("sleep 60", ("--timeout", "0.3"),
   "`scontrol -a -o show config` did not answer within 0.3 s: is the scheduler overloaded or"),
  ("echo SelectType = x; exec >&-; sleep 60", ("--timeout", "5"), "did not answer within 5 s"),
  ("kill -9 $$", (), "was killed by signal 9"),
])
def test_a_scheduler_that_is_down_or_late_is_an_error(tmp_path, script, words, message):
  env = fake(tmp_path / "bin", scontrol=script)
  begun = time.monotonic()
  done = check(*words, code=3, env=env)
  assert message in done.stderr and done.stdout == ""
  assert "--for kubernetes leaves it out" in done.stderr
  assert time.monotonic() - begun < 30
  assert "leaves it out" not in check("--for", "slurm", *words, code=3, env=env).stderr


def test_what_is_no_answer_is_an_error(tmp_path):
  env = fake(tmp_path / "bin", scontrol="echo welcome to the cluster", kubectl="echo '{}'")
  assert "scontrol show config: expected lines such as" in check(code=1, env=env).stderr
  assert "kubectl get -o json: expected a JSON object" in \
      check("--for", "kubernetes", code=1, env=env).stderr
  empty = fake(tmp_path / "empty")
  assert "neither scontrol nor kubectl is in PATH" in check(code=3, env=empty).stderr
  assert "kubectl is not in PATH" in check("--for", "kubernetes", code=3, env=empty).stderr
  assert "it has neither config.txt nor kubernetes.json" in \
      check("--from", tmp_path, code=2).stderr
  assert "node.txt" in check("--from", saved_without(tmp_path / "part", "node"), code=1).stderr


def saved_without(folder: Path, name: str) -> Path:
  saved(folder)
  (folder / f"{name}.txt").unlink()
  return folder


def test_options_that_do_not_belong_together_are_refused(tmp_path):
  assert "--output excludes --check" in check("-o", tmp_path / "out", code=2).stderr
  done = subprocess.run([program(), "cluster", "compile", SITE], capture_output=True, text=True)
  assert done.returncode == 2 and "--check" in done.stderr
  for words in (("--from", tmp_path), ("--timeout", "3")):
    done = subprocess.run([program(), "cluster", "compile", SITE, "-o", tmp_path / "out", *words],
                          capture_output=True, text=True)
    assert done.returncode == 2 and f"{words[0]} needs --check" in done.stderr
    assert not (tmp_path / "out").exists()


def test_hostile_texts_reach_the_terminal_without_control_characters(tmp_path):
  folder = saved(tmp_path / "saved", partition=("PreemptMode=OFF", "PreemptMode=\x1b[2J"))
  with (folder / "partition.txt").open("ab") as file:
    file.write(b"PartitionName=\x1b]0;x\x07 State=UP Nodes=m0\n")
    file.write(b"PartitionName=\xff State=UP Nodes=m0\n")
  (folder / "node.txt").write_bytes((folder / "node.txt").read_bytes().replace(
    b"Weight=1 ", b"Weight=\xff "))
  out = check("--from", folder, code=1).stdout
  assert "\x1b" not in out and "partition ?]0;x?: Nodes m0, the site file has none" in out
  found = json.loads(check("--from", folder, "--json", code=1).stdout)["differences"]
  assert {"scheduler": "slurm", "what": "node r0", "key": "Weight", "expected": "1", "found": "?",
          "line": found[0]["line"]} in found
  assert any(each["what"] == "partition ?" for each in found)


def test_ctrl_c_ends_it_and_the_command_that_it_waits_for(tmp_path):
  env = fake(tmp_path / "bin", scontrol=f"echo $$ > {tmp_path}/pid; exec sleep 60")
  running = subprocess.Popen([program(), "cluster", "compile", SITE, "--check"], env=env,
                             preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
  end = time.monotonic() + 60
  while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
    assert time.monotonic() < end
    time.sleep(0.02)
  running.send_signal(signal.SIGINT)
  assert running.wait(60) == -signal.SIGINT
  child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
  while child.exists() and "\nState:\tZ" not in (child / "status").read_text():
    assert time.monotonic() < end
    time.sleep(0.02)
