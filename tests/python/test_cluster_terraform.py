"""What `stretto cluster compile --terraform` writes is what tests/cluster/terraform holds, and
refers only to what it defines. Terraform itself is no package of Debian or PyPI, so nothing here
runs it.

  python tests/python/test_cluster_terraform.py      # writes the golden files anew
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from cluster_terraform import CLOUDS, GOLDEN, SITE, expressions, main_of, problems, strings
from test_cluster_site import HOSTILE, ROOT, stretto, texts


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


def main():
  os.environ.setdefault("STRETTO_BUILD", str(ROOT / "build/dev"))
  for cloud in CLOUDS:
    shutil.rmtree(GOLDEN / cloud, ignore_errors=True)
    GOLDEN.mkdir(exist_ok=True)
    stretto("compile", SITE.relative_to(ROOT), "-o", GOLDEN / cloud, "--terraform",
            cloud)


if __name__ == "__main__":
  sys.exit(main())
