"""What `stretto cluster compile` writes is what tests/cluster/golden holds, fits the schemas of
Kueue, and holds nothing that a site file can smuggle in.

  python tests/python/test_cluster_site.py      # writes the golden files, schema and reference anew
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cluster_loopback import program

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests/cluster"
SITES = {"three_kinds": ROOT / "examples/cluster/three_kinds.toml",
         "unlike": CASES / "sites/unlike.toml", "off": CASES / "sites/off.toml"}
SCHEMA = ROOT / "docs/formats/site.schema.json"
PAGE = ROOT / "docs/formats/site.md"
PLACE = re.compile(r"(<!-- begin: keys -->\n)(.*?)(<!-- end: keys -->)", re.S)


def stretto(*words, code=0, cwd=ROOT):
  done = subprocess.run([program(), "cluster", *map(str, words)], cwd=cwd, capture_output=True,
                        text=True, timeout=120)
  assert done.returncode == code, done.stderr + done.stdout
  return done.stderr if code else done.stdout


def texts(folder: Path) -> dict[str, str]:
  return {str(p.relative_to(folder)): p.read_text()
          for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("name", SITES)
def test_files_are_the_golden_ones(name, tmp_path):
  stretto("compile", SITES[name].relative_to(ROOT), "-o", tmp_path / "out")
  assert texts(tmp_path / "out") == texts(CASES / "golden" / name), \
      f"if that is right: python {Path(__file__).name}"


def test_the_schema_is_current_and_takes_the_examples(tmp_path):
  assert SCHEMA.read_text() == stretto("schema"), f"write it anew: python {Path(__file__).name}"
  tomllib = pytest.importorskip("tomllib", reason="no Python 3.11 with its headers on this machine")
  for site in SITES.values():
    data = tmp_path / f"{site.stem}.json"
    data.write_text(json.dumps(tomllib.loads(site.read_text())))
    checked(SCHEMA, data)
  wrong = tmp_path / "wrong.json"
  wrong.write_text(json.dumps({"nodes": [{"names": "a", "chps": 1}]}))
  with pytest.raises(subprocess.CalledProcessError):
    checked(SCHEMA, wrong)


def checked(schema: Path, *files: Path):
  subprocess.run([sys.executable, "-m", "check_jsonschema", "--schemafile", schema, *files],
                 check=True, capture_output=True, timeout=120)


def test_the_reference_lists_every_key():
  found = PLACE.search(PAGE.read_text())
  assert found[2] == stretto("schema", "--markdown"), f"write it anew: python {Path(__file__).name}"


def documents(folder: Path) -> list[dict]:
  yaml = pytest.importorskip("yaml", reason="no PyYAML: ./dev setup installs it")
  return [document for path in sorted(folder.glob("kubernetes/*.yaml"))
          for document in yaml.safe_load_all(path.read_text()) if document]


def kueue_objects(folder: Path) -> list[dict]:
  return [d for d in documents(folder) if d["apiVersion"].startswith("kueue.x-k8s.io/")]


def crd(kind: str) -> Path:
  return CASES / f"crds/{kind.lower()}.json"


@pytest.mark.parametrize("name", SITES)
def test_objects_fit_the_schemas_of_kueue(name, tmp_path):
  by_kind = {}
  for number, each in enumerate(kueue_objects(CASES / "golden" / name)):
    path = tmp_path / f"{number}.json"
    path.write_text(json.dumps(each))
    by_kind.setdefault(each["kind"], []).append(path)
  assert {"ResourceFlavor", "ClusterQueue", "LocalQueue", "WorkloadPriorityClass"} <= set(by_kind)
  for kind, paths in by_kind.items():
    checked(crd(kind), *paths)


def test_the_schemas_of_kueue_refuse_unknown_fields(tmp_path):
  objects = kueue_objects(CASES / "golden/three_kinds")
  queue = next(d for d in objects if d["kind"] == "ClusterQueue")
  path = tmp_path / "queue.json"
  for change in ({"nominalQuotas": 1}, {"resources": [{"name": "cpu"}]}):
    flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]
    flavor.update(change)
    path.write_text(json.dumps(queue))
    with pytest.raises(subprocess.CalledProcessError):
      checked(crd("ClusterQueue"), path)
    flavor.pop("nominalQuotas", None)


@pytest.mark.parametrize("name", SITES)
def test_every_queue_and_flavor_that_is_named_exists(name):
  objects = kueue_objects(CASES / "golden" / name)
  named = {}
  for each in objects:
    named.setdefault(each["kind"], set()).add(each["metadata"]["name"])
  namespaces = {d["metadata"]["name"] for d in documents(CASES / "golden" / name)
                if d["kind"] == "Namespace"}
  for each in objects:
    if each["kind"] == "LocalQueue":
      assert each["spec"]["clusterQueue"] in named["ClusterQueue"]
      assert each["metadata"]["namespace"] in namespaces
    if each["kind"] == "ClusterQueue":
      for group in each["spec"]["resourceGroups"]:
        for flavor in group["flavors"]:
          assert flavor["name"] in named["ResourceFlavor"]
          assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]
    if "topologyName" in each.get("spec", {}):
      assert each["spec"]["topologyName"] in named["Topology"]


@pytest.mark.parametrize("name", SITES)
def test_flavors_of_a_queue_all_have_a_topology_or_none_has(name):
  """Of a queue with both, Kueue gives jobs that name none only flavors without: the others' nodes
  would be idle, and their jobs would wait for ever."""
  objects = kueue_objects(CASES / "golden" / name)
  topology = {each["metadata"]["name"]: each["spec"].get("topologyName") for each in objects
              if each["kind"] == "ResourceFlavor"}
  levels = {each["metadata"]["name"]: [level["nodeLabel"] for level in each["spec"]["levels"]]
            for each in objects if each["kind"] == "Topology"}
  racks = set()
  for each in objects:
    if each["kind"] == "ClusterQueue":
      flavors = [f["name"] for group in each["spec"]["resourceGroups"] for f in group["flavors"]]
      assert len({topology[flavor] is None for flavor in flavors}) == 1
      if all("stretto/rack" in levels.get(topology[flavor], []) for flavor in flavors):
        racks.add(each["metadata"]["name"])
  assert {each["spec"]["clusterQueue"] for each in objects if each["kind"] == "LocalQueue" and
          "stretto/topology" in each["metadata"].get("annotations", {})} == racks
  assert bool(racks) == (name == "unlike")


@pytest.mark.parametrize("name", SITES)
def test_jobs_may_run_on_nodes_that_are_closed_to_jobs_without_chips(name):
  for each in kueue_objects(CASES / "golden" / name):
    if each["kind"] == "ResourceFlavor":
      found = [t for t in each["spec"].get("tolerations", []) if "/" in t["key"]
               and (t["operator"], t["effect"]) == ("Exists", "NoSchedule")]
      assert len(found) == (each["spec"]["nodeLabels"]["stretto/chip"] != "none")


def test_a_job_that_gets_its_queue_later_is_checked_then():
  [policy] = [each for each in documents(CASES / "golden/unlike")
              if each["kind"] == "ValidatingAdmissionPolicy"]
  for rule in policy["spec"]["matchConstraints"]["resourceRules"]:
    assert rule["operations"] == ["CREATE", "UPDATE"]
  # What controllers change of a job in its queue is not looked at.
  [when] = [each["expression"] for each in policy["spec"]["matchConditions"]
            if "oldObject" in each["expression"]]
  assert when.startswith("request.operation == 'CREATE' || ")


HOSTILE = "x\n$(touch pwned)`touch pwned`\"'; touch pwned #: {y: [z]}\\\n---\nPartitionName=evil"


def test_a_hostile_file_name_stays_in_comments(tmp_path):
  site = tmp_path / f"{HOSTILE.replace('/', '')}.toml"
  shutil.copy(SITES["unlike"], site)
  stretto("compile", site, "-o", tmp_path / "out", cwd=tmp_path)
  clean = documents(CASES / "golden/unlike")
  assert documents(tmp_path / "out") == clean
  for name, text in texts(tmp_path / "out").items():
    golden = (CASES / "golden/unlike" / name).read_text()
    mark = {"lua": "--", "cpp": "//"}.get(name.rpartition(".")[2], "#")
    code = [line for line in text.splitlines() if not line.startswith(mark)]
    assert code == [line for line in golden.splitlines() if not line.startswith(mark)], name
  for script in (tmp_path / "out").rglob("*.sh"):
    subprocess.run(["sh", "-n", script], check=True, timeout=60)
    fake = tmp_path / "bin"
    fake.mkdir(exist_ok=True)
    for name in ("kubectl", "sacctmgr"):
      (fake / name).write_text("#!/bin/sh\n")
      (fake / name).chmod(0o755)
    subprocess.run(["sh", script], check=True, timeout=60, cwd=tmp_path,
                   env=os.environ | {"PATH": f"{fake}:{os.environ['PATH']}"})
  assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("word", ["a\\nb", "a b", "$(id)", "`id`", "a;b", "a'b", "a\\\"b", "a: b",
                                  "a#b", "- a", "{a}", "a,b", "\\u0000", "a=b", "..", "*"])
def test_hostile_names_are_refused(tmp_path, word):
  (tmp_path / "site.toml").write_text(
    f'[[nodes]]\nnames = "a"\n[[queues]]\nname = "{word}"\n')
  assert "[[queues]] name" in stretto("compile", "site.toml", "-o", "out", code=1, cwd=tmp_path)
  assert not (tmp_path / "out").exists()


def test_the_folder_is_written_whole_or_not_at_all(tmp_path):
  site, out = SITES["off"], tmp_path / "out"
  stretto("compile", site, "-o", out)
  before = texts(out)
  bad = tmp_path / "bad.toml"
  bad.write_text("[[nodes]]\n")
  assert "bad.toml:1: [[nodes]] needs names" in stretto("compile", bad, "-o", out, code=1)
  assert texts(out) == before
  stretto("compile", SITES["three_kinds"], "-o", out, "--for", "slurm")
  assert set(texts(out)) == {"FILES", "slurm/slurm.conf", "slurm/gres.conf", "slurm/job_submit.lua",
                             "slurm/job_submit_stretto.cpp"}
  (out / "mine").write_text("kept")
  assert "it has mine" in stretto("compile", site, "-o", out, code=2)
  assert (out / "mine").read_text() == "kept"
  assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
  assert "No such file" in stretto("compile", site, "-o", tmp_path / "no/where", code=1)


@pytest.mark.parametrize("queues, problem", [
  ('[[queues]]\nname = "a"\npriority = 9\n[[queues]]\nname = "b"\npreempts = true\npriority = 5\n',
   "Slurm cannot let queue b preempt while a"),
])
def test_what_slurm_cannot_express_is_refused(tmp_path, queues, problem):
  (tmp_path / "site.toml").write_text('[[nodes]]\nnames = "n"\n' + queues)
  assert problem in stretto("compile", "site.toml", "-o", "out", "--for", "slurm", code=1,
                            cwd=tmp_path)


@pytest.mark.parametrize("text, problem", [
  ('[[queues]]\nname = "a_b"\n[[queues]]\nname = "a-b"\n', "two queues would be called a-b"),
  ('[[queues]]\nname = "a-"\n', "'a-' is no name for Kubernetes"),
  ('[[queues]]\nname = "u"\npreempts = true\npriority = 90\n[[queues]]\nname = "a"\npriority = 9\n'
   '[[queues]]\nname = "b"\npriority = 5\n', "give queue b the priority of a"),
  ('[[groups]]\nname = "A"\nnodes = "n0"\n[[groups]]\nname = "a"\nnodes = "n1"\n', "both"),
])
def test_what_kueue_cannot_express_is_refused(tmp_path, text, problem):
  (tmp_path / "site.toml").write_text('[[nodes]]\nnames = "n[0-1]"\n' + text)
  assert problem in stretto("compile", "site.toml", "-o", "out", "--for", "kubernetes", code=1,
                            cwd=tmp_path)
  assert not (tmp_path / "out").exists()


def main():
  os.environ.setdefault("STRETTO_BUILD", str(ROOT / "build/dev"))
  for name, site in SITES.items():
    shutil.rmtree(CASES / "golden" / name, ignore_errors=True)
    (CASES / "golden").mkdir(exist_ok=True)
    stretto("compile", site.relative_to(ROOT), "-o", CASES / "golden" / name)
  SCHEMA.write_text(stretto("schema"))
  if PAGE.exists():
    page = PAGE.read_text()
    keys = stretto("schema", "--markdown")
    PAGE.write_text(PLACE.sub(lambda found: found[1] + keys + found[3], page))


if __name__ == "__main__":
  main()
