"""`stretto cluster` without a scheduler: options, the tree that is packed, what Slurm prints, jobs
that are processes of this machine."""

import json
import os
import random
import subprocess
import time
from pathlib import Path

import pytest
from cluster_slurm import without_scheduler
from stretto.cluster._backend import OVER, RUNS, WAITS, Chips, State, parts_of
from stretto.cluster._host import ClusterError, Host

from stretto.cluster import (
  _agent,
  _follow,
  _ignore,
  _loopback_files,
  _options,
  _pack,
  _slurm,
  _slurm_output,
  _state,
  _watch_steps,
)

SEED = 11
S = _slurm_output.SEPARATOR


@pytest.fixture
def cluster(tmp_path):
  return without_scheduler(tmp_path)


# The tree that jobs get.

PATTERNS = ["*.log", "!keep.log", "build/", "/top.txt", "a/*.txt", "**/deep", "x/**", "doc/**/z",
            "tmp?", "[ab].bin", "[!a].dat", "# note", "", "  ", "sub/inner/", "*~", "\\#hash",
            "trailing   ", "data/*", "!data/kept", "nested/**/*.o"]
NAMES = ["keep.log", "run.log", "top.txt", "deep", "z", "tmp1", "a.bin", "c.bin", "a.dat", "b.dat",
         "b~", "#hash", "trailing", "kept", "m.o", "plain.py"]
FOLDERS = ["", "a", "build", "x", "x/y", "doc", "doc/p", "sub/inner", "data", "nested/q", "a/build"]


def fill(root, draw):
  for folder in FOLDERS:
    for name in draw.sample(NAMES, 6):
      path = root / folder / name
      if not path.exists() and not any(p.is_file() for p in path.parents):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
  for folder in ("", "a", "nested"):
    lines = draw.sample(PATTERNS, draw.randrange(len(PATTERNS)))
    (root / folder / ".gitignore").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("case", range(12))
def test_ignored_files_are_those_that_git_ignores(tmp_path, case):
  draw = random.Random(f"{SEED} {case}")
  fill(tmp_path, draw)
  own = set(_ignore.walk(tmp_path))
  subprocess.run(["git", "init", "-q", tmp_path], check=True)
  listed = subprocess.run(["git", "-C", tmp_path, "ls-files", "-z", "--others",
                           "--exclude-standard"], capture_output=True, check=True).stdout
  assert own == {name.decode() for name in listed.split(b"\0") if name}, f"seed {SEED} {case}"


def test_a_repository_is_packed_as_git_sees_it(tmp_path):
  def git(*words, at=tmp_path):
    subprocess.run(["git", "-C", at, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                   check=True, capture_output=True)

  git("init", "-q")
  for name in ("tracked.py", "gone.py", "odd \n\u00e9 name", "src/mod.py", "big.bin", "lib/in.py"):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("x")
  (tmp_path / "link").symlink_to("tracked.py")
  (tmp_path / ".gitignore").write_text("big.bin\n")
  git("init", "-q", at=tmp_path / "lib")  # a repository inside
  git("add", "tracked.py", "gone.py", "src")
  (tmp_path / "gone.py").unlink()
  tree = _pack.tree_of(tmp_path / "src")
  assert (tree.root, tree.inside) == (tmp_path, "src")
  assert {n for n, _ in tree.files} == {"tracked.py", "odd \n\u00e9 name", "src/mod.py", "link",
                                        ".gitignore", "lib/in.py"}
  folder = str(tmp_path / "job")
  _agent.make(folder, {"job.sh": "x"})
  Host().put_tree(folder, tree.files)
  assert len(json.loads(Path(folder, "packed.json").read_text())) == len(tree.files)
  assert os.readlink(Path(folder, "work", "link")) == "tracked.py"
  assert Path(folder).stat().st_mode & 0o777 == 0o700
  assert _agent.written(folder) == []
  Path(folder, "work/new").write_text("y")
  Path(folder, "work/src/mod.py").write_text("changed")
  assert _agent.written(folder) == ["new", "src/mod.py"]
  Host().put_tree(folder, [("given", tmp_path / "tracked.py")])  # what is uploaded later
  assert _agent.written(folder) == ["new", "src/mod.py"]


def test_a_submodule_that_is_not_checked_out_is_no_part_of_the_tree(tmp_path):
  def git(*words, at=tmp_path):
    subprocess.run(["git", "-C", at, "-c", "user.name=a", "-c", "user.email=a@b", *words],
                   check=True, capture_output=True)

  git("init", "-q")
  (tmp_path / "sub").mkdir()
  (tmp_path / "a.py").write_text("x")
  git("add", "a.py")
  git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
  assert [n for n, _ in _pack.tree_of(tmp_path).files] == ["a.py"]
  git("init", "-q", at=tmp_path / "sub")  # now it is
  (tmp_path / "sub/b.py").write_text("x")
  assert [n for n, _ in _pack.tree_of(tmp_path).files] == ["a.py", "sub/b.py"]


def test_a_git_that_fails_is_an_error(tmp_path, monkeypatch):
  git = _pack.git
  subprocess.run(["git", "init", "-q", tmp_path], check=True)
  monkeypatch.setattr(_pack, "git",
                      lambda root, *words: None if words[0] == "ls-files" else git(root, *words))
  with pytest.raises(ClusterError, match="`git ls-files` fails there"):
    _pack.tree_of(tmp_path)


def test_links_do_not_stop_a_download_and_are_followed_by_an_upload(tmp_path):
  folder = str(tmp_path / "job")
  _agent.make(folder, {})
  _agent.note_tree(folder, [])
  work = Path(folder, "work")
  (work / "result").write_text("x")
  for name, target in (("latest", "/etc/passwd"), ("lost", "nowhere"), ("good", "result")):
    (work / name).symlink_to(target)
  assert _agent.written(folder) == ["good", "result"]
  (tmp_path / "data.csv").write_text("y")
  (tmp_path / "given").symlink_to("data.csv")
  Host().put_tree(folder, [("given", tmp_path / "given")], follow=True)
  assert not (work / "given").is_symlink() and (work / "given").read_text() == "y"


def test_a_folder_that_its_repository_ignores_is_a_tree_by_itself(tmp_path):
  subprocess.run(["git", "init", "-q", tmp_path], check=True)
  (tmp_path / ".gitignore").write_text("build/\n")
  (tmp_path / "build/try").mkdir(parents=True)
  (tmp_path / "build/try/a.py").write_text("x")
  tree = _pack.tree_of(tmp_path / "build/try")
  assert [name for name, _ in tree.files] == ["a.py"] and tree.inside == "."


def test_a_tree_that_is_too_large_says_what_takes_most(tmp_path):
  for name, size in (("data.bin", 3 << 20), ("small.py", 10)):
    (tmp_path / name).write_bytes(bytes(size))
  assert len(_pack.tree_of(tmp_path, 4).files) == 2
  with pytest.raises(ClusterError, match=r"more than 2 MB: data.bin \(3 MB so far\).*--pack-limit"):
    _pack.tree_of(tmp_path, 2)


def test_files_of_a_job_cannot_leave_its_folder(tmp_path):
  folder = str(tmp_path / "job")
  _agent.make(folder, {})
  Path(folder, "work/out").symlink_to("/etc")
  for path in ("../job.json", "/etc/passwd", "out/passwd", "a/../../x"):
    with pytest.raises(ValueError, match="outside the job's folder"):
      _agent.inside(folder, path)


# Options.

@pytest.mark.parametrize("words, error", [
  (["-n", "0"], "-n: expected"),
  (["--nodes", "0"], "--nodes: expected"),
  (["--chips", "v100"], "--chips: expected KIND:N"),
  (["--chips", "v100:0"], "--chips: expected KIND:N"),
  (["--chips=-x:1"], "--chips: expected KIND:N"),
  (["--chips", "a:1", "--chips", "a:2"], "a is given twice"),
  (["--chips", "a:1", "--chips", "b:2", "-n", "3"], "one rank per chip"),
  (["--chips", "a:3", "--nodes", "2"], "do not divide"),
  (["--python", "b=x"], "there is no --chips b:N"),
  (["--env", "1A=x"], "--env: expected NAME=VALUE"),
  (["--env", "A"], "--env: expected NAME=VALUE"),
  (["--secret", "no-name"], "--secret: expected"),
  (["--secret", "NOT_SET_ANYWHERE"], "there is no such variable"),
  (["--time", "soon"], "--time: expected"),
  (["--retries=-1"], "--retries: expected"),
  (["--hang-after", "0"], "--hang-after: expected"),
  (["--queue", "a b"], "--queue: expected"),
  (["--backend", "cloudy"], "--backend: expected local, slurm"),
  (["--backend", "local", "--time", "1h"], "--time: needs a scheduler"),
  (["--backend", "local", "--host", "a@b"], "not with --backend local"),
  (["-m", "--no-python"], "give one of them"),
])
def test_wrong_options_are_named(cluster, words, error):
  cluster.script("train.py", "")
  assert error in cluster.run("run", *words, "train.py", code=2).stderr
  assert not (cluster.state / "jobs").exists()


def test_a_script_has_to_be_in_the_tree(cluster):
  assert "there is no such file" in cluster.run("run", "nothing.py", code=2).stderr
  cluster.script("hidden.py", "")
  cluster.script(".gitignore", "hidden.py\n")
  assert ".gitignore leaves this file out" in cluster.run("run", "hidden.py", code=2).stderr


def test_unknown_verbs_and_clusters(cluster):
  assert "expected up, run, ls" in cluster.run("fly", code=2).stderr
  assert "there is no such cluster" in cluster.run("ls", "--cluster", "other", code=3).stderr
  assert "--cluster: expected letters" in cluster.run("ls", "--cluster", "../x", code=2).stderr
  assert "there is no scheduler here" in cluster.run("up", code=3).stderr


def test_every_verb_has_its_function_and_its_help(cluster):
  from stretto.cluster import _verbs
  assert list(_verbs.FUNCTIONS) == [verb.name for verb in _options.VERBS]
  for verb in _options.describe():
    shown = cluster.run(verb["name"].split()[-1], "--help").stdout
    for option in verb["options"]:
      assert option["names"][-1] in shown
      assert not option["text"].endswith(".")


def test_durations_are_those_of_slurm():
  from stretto.cluster import _run
  assert [_run.duration(t) for t in ("90s", "90m", "25h", "2d", "1-12:00:00", "30")] == [
    "0-00:01:30", "0-01:30:00", "1-01:00:00", "2-00:00:00", "1-12:00:00", "30"]


# What Slurm prints.

def test_jobs_of_the_queue():
  now = time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1))
  out = "".join(S.join(fields) + "\n" for fields in (
    ("12", "RUNNING", "2026-01-02T03:03:05", "2", "gres:gpu:v100:8", "multi", "None", "ann",
     "/home/ann/x", "train"),
    ("13+0", "PENDING", "2026-01-02T02:04:05", "1", "gres/gpu:k40:4", "all", "Resources", "bob",
     "/y", "a|b  c"),
    ("14", "PENDING", "N/A", "1", "N/A", "all", "(null)", "bob", "/y", "two\nlines")))
  rows = _slurm_output.rows(out, now)
  assert [(r.id, r.state, r.age_s, r.nodes, r.chips, r.reason, r.name) for r in rows] == [
    ("12", "running", 60, 2, "v100:8", "", "train"),
    ("13+0", "pending", 3600, 1, "k40:4", "Resources", "a|b  c"),
    ("14", "pending", 0, 1, "", "(null)", "two")]


def test_ten_thousand_jobs_are_listed_in_a_second(cluster):
  """The promise is a second for the command; the rows alone take a small part of that."""
  line = S.join(("{}", "PENDING", "2026-01-02T03:{:02}:05", "2", "gres/gpu:v100:8", "multi",
                 "Priority", "ann", "/home/ann/x", "train"))
  out = "".join(line.format(i, i % 60) + "\n" for i in range(10_000))
  begin = time.process_time()
  rows = _slurm_output.rows(out)
  assert len(rows) == 10_000 and rows[-1].id == "9999"
  assert time.process_time() - begin < 1


@pytest.mark.parametrize("out, expected", [
  (f"n0{S}gpu:k40:4\nn1{S}gpu:k40:4\n", {"k40": ("gpu:k40", {"n0": 4, "n1": 4})}),
  (f"n0{S}gpu:v100:8(S:0-1)\n", {"v100": ("gpu:v100", {"n0": 8})}),  # 20.11 on, with sockets
  (f"n0{S}gpu:a100:4(S:0,1),nvme:2\nn1{S}(null)\n",
   {"a100": ("gpu:a100", {"n0": 4}), "nvme": ("nvme", {"n0": 2})}),
  (f"n0{S}gpu:8\n", {"gpu": ("gpu", {"n0": 8})}),
  (f"n0{S}npu:ascend910:8,gpu:1g.10gb:2\n",
   {"ascend910": ("npu:ascend910", {"n0": 8}), "1g.10gb": ("gpu:1g.10gb", {"n0": 2})}),
  (f"n0{S}\n", {}),
])
def test_chips_of_nodes(out, expected):
  assert _slurm_output.gres_of(out) == expected


@pytest.mark.parametrize("out, number", [
  ("12\n", "12"), ("12;lab\n", "12"), ("Welcome to the site!\n\n4711;lab-2\n", "4711")])
def test_number_of_a_submitted_job(out, number):
  assert _slurm_output.job_number(out) == number


def test_an_answer_that_is_no_number_is_shown():
  with pytest.raises(ClusterError, match="expected the number of the job, got 'Submitted"):
    _slurm_output.job_number("Submitted batch job twelve")


@pytest.mark.parametrize("version, config, ports", [
  ("slurm-wlm 22.05.8", "MpiDefault        = none\nMpiParams         = (null)\n", False),
  ("slurm 23.02.7", "MpiParams               = ports=12000-12999\n", True),
  ("slurm 24.11.5", "MpiParams               = ports=12000-12999\n", True),
  ("slurm 25.05.0-1", "MpiParams               = \nSrunPortRange           = 60001-63000\n", False),
])
def test_versions_and_reserved_ports(version, config, ports):
  assert _slurm_output.version_of(version) == version.split()[1].split("-")[0]
  assert _slurm_output.has_reserved_ports(config) is ports


def test_states_of_a_job_and_of_its_parts():
  assert _slurm_output.states(f"RUNNING{S}None\n").what == RUNS
  assert _slurm_output.states(f"RUNNING{S}None\nPENDING{S}Resources\n") == State(
    WAITS, "PENDING", "Resources")
  assert _slurm_output.states(f"NODE_FAIL{S}None\n").what == OVER
  assert _slurm_output.states("") is None
  # What a newer Slurm calls a job that goes on must not end `run`.
  assert _slurm_output.states(f"EXPEDITING{S}None\n").what == RUNS


@pytest.mark.parametrize("state, left, code", [
  (State(OVER, "COMPLETED"), "0\n", 0),
  (State(OVER, "FAILED"), "7\n", 7),
  (State(OVER), "7\n", 7),  # the scheduler has forgotten it
  (State(OVER), None, 1),
  (State(OVER, "TIMEOUT"), None, 124),
  (State(OVER, "TIMEOUT"), "0\n", 124),
  (State(OVER, "CANCELLED"), "0\n", 143),
  (State(OVER, "CANCELLED"), "124\n", 124),  # by --hang-after
  (State(OVER, "NODE_FAIL"), None, 1),
  (State(OVER, "NODE_FAIL"), "0\n", 1),
  (State(OVER, "OUT_OF_MEMORY"), "0\n", 1),
  (State(OVER, "PREEMPTED"), "0\n", 1),
  (State(OVER, "COMPLETED"), None, 0),
])
def test_the_code_of_a_job(state, left, code):
  assert _follow.code_of(state, left) == code


def test_chips_become_nodes():
  kinds = {"v100": ("gpu:v100", {"m0": 8, "m1": 8, "m2": 4}), "k40": ("gpu:k40", {"s0": 4})}

  def of(kind, total, nodes=None, ranks=None):
    part = _slurm.component(Chips(kind, total, ranks or total, nodes), kinds, "py")
    return part.nodes, part.ranks, part.gres

  assert of("v100", 8) == (1, 8, "gpu:v100:8")
  assert of("v100", 16) == (2, 16, "gpu:v100:8")
  assert of("v100", 9) == (3, 9, "gpu:v100:3")
  assert of("v100", 8, nodes=2) == (2, 8, "gpu:v100:4")
  assert of("k40", 4, ranks=1) == (1, 1, "gpu:k40:4")
  with pytest.raises(ClusterError, match="this site has k40 .4., v100 .20."):
    of("h100", 1)
  with pytest.raises(ClusterError, match="all nodes together have 20"):
    of("v100", 21)
  with pytest.raises(ClusterError, match="a node has 8 at most; --nodes 2"):
    of("v100", 16, nodes=1)


def test_reserved_ports_are_used_where_the_site_has_them():
  from stretto.cluster._backend import Request

  from stretto.cluster import _slurm_script, _task
  request = Request("x", list(parts_of(2, [], None, {})), ["./a.py"])
  part = [_slurm.component(request.parts[0], {}, "python3")]
  text = _slurm_script.text(request, part, False, True)
  assert "--kill-on-bad-exit=1 --resv-ports=2 --ntasks=2 python3 -m stretto.cluster._task " \
    "--reserved-ports" in text and "MASTER_PORT=" not in text
  environment = {"MASTER_ADDR": "m0", "STRETTO_JOB_FOLDER": "/j",
                 "SLURM_STEP_RESV_PORTS": "12000-12001"}
  chosen = _task.settings(environment, (1, 2, 1, 2, 0), True)
  assert (chosen["MASTER_PORT"], chosen["STRETTO_ADDRESS"]) == ("12000", "m0:12001")
  assert "MASTER_PORT=$(" in _slurm_script.text(request, part, False, False)
  # Of a heterogeneous job each part would get ports of its own, and the ranks would not meet.
  both = _slurm_script.text(request, part * 2, False, True)
  assert "MASTER_PORT=$(" in both and "resv-ports" not in both and "reserved-ports" not in both
  chosen = _task.settings({**environment, "MASTER_PORT": "4000"}, (1, 2, 1, 2, 0))
  assert (chosen["MASTER_PORT"], chosen["STRETTO_ADDRESS"]) == ("4000", "m0:4001")


@pytest.mark.parametrize("time, seconds, grace", [
  ("", None, 60), ("0-00:01:00", 60, 0), ("0-00:05:00", 300, 30), ("90", 5400, 60),
  ("3:20", 200, 0), ("1:00:00", 3600, 60), ("1-12", 129600, 60), ("1-1:30", 91800, 60)])
def test_the_warning_does_not_come_at_the_start_of_a_short_job(time, seconds, grace):
  from stretto.cluster import _slurm_script
  assert not time or _slurm_script.seconds_of(time) == seconds
  assert _slurm_script.grace_of(time) == grace


def test_a_late_scheduler_is_an_error_that_names_it(monkeypatch, tmp_path):
  (tmp_path / "squeue").write_text("#!/bin/sh\nsleep 600 & sleep 600\n")
  (tmp_path / "squeue").chmod(0o755)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  with pytest.raises(ClusterError, match="squeue here: no answer within 0.3 s; is the sched"):
    Host().ask(["squeue"], timeout=0.3)
  with pytest.raises(ClusterError, match="sbatch-none here: .*not found"):
    Host().ask(["sbatch-none"])


@pytest.mark.parametrize("told", [
  "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
  "scontrol: error: fetch_config: DNS SRV lookup failed\n"
  "scontrol: error: _establish_config_source: failed to fetch config\n"
  "scontrol: fatal: Could not establish a configuration source",
  "sinfo: fatal: Could not establish a configuration source"])
def test_commands_of_slurm_without_a_site_say_what_to_do(monkeypatch, tmp_path, told):
  (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho '{told}' >&2; exit 1\n")
  (tmp_path / "scontrol").chmod(0o755)
  monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
  with pytest.raises(ClusterError, match="no slurm.conf, so no Slurm site; .* up --local-slurm"):
    Host().ask(["scontrol", "show", "config"])


@pytest.mark.parametrize("count, words", [(1, "1 file"), (2, "2 files")])
def test_one_file_is_no_files(tmp_path, count, words):
  from stretto.cluster import _pack, _run
  for number in range(count):
    (tmp_path / f"{number}.py").write_text("")
  assert _run.files_in_words(_pack.tree_of(tmp_path)) == words


# Hangs.

def test_a_hang_is_when_no_rank_goes_on(tmp_path):
  now = [0.0]

  def sleep(seconds):
    now[0] += seconds
    if now[0] < 50:
      beat(1, int(now[0]))

  def beat(rank, operations):
    (tmp_path / f"rank-{rank:05}.json").write_text(json.dumps({"rank": rank,
                                                               "operations": operations}))

  beat(0, 5)
  beat(1, 0)
  (tmp_path / "rank-00002.json").write_text("{")  # half written
  assert _watch_steps.wait_for_hang(str(tmp_path), 10, sleep, lambda: now[0]) == {0: 5, 1: 49}
  assert 59 <= now[0] <= 62


@pytest.mark.parametrize("answers, missing, expected", [
  ({0: True, 1: False, 2: True}, [], [1]),  # its script is elsewhere
  ({0: True, 2: True}, [], [1]),  # it does not answer
  ({0: False, 1: False, 2: False}, [2], [2]),  # the others wait in a library: records decide
  ({0: True, 1: True, 2: True}, [], [0]),  # it has finished least
])
def test_which_rank_hangs(answers, missing, expected):
  given = {rank: {"in_engine": inside, "stack": ["a.py"]} for rank, inside in answers.items()}
  merged = {"open": [{"missing": missing, "unknown": []}]}
  hanging, text = _watch_steps.report(9, {0: 3, 1: 4, 2: 4}, "records", merged, given)
  assert hanging == expected and f"rank {expected[0]} hangs here" in text


def test_free_ports_are_free():
  base = _loopback_files.free_base(4)
  assert all(_loopback_files.is_free(p) for p in range(base + 10, base + 14))


def test_names_of_jobs():
  assert _state.check_job_name("-a $(b) \u00e9") == "-a $(b) \u00e9"
  for name in ("", "a\nb", "a\x1fb", "x" * 201):
    with pytest.raises(ValueError, match="--name: expected"):
      _state.check_job_name(name)
