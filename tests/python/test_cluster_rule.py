"""The two forms of the submit rule that `stretto cluster compile` writes, job_submit.lua and the
plugin job_submit_stretto.cpp, decide the same about any request. Lua runs here in the library that
slurmctld uses; the plugin is compiled against stand-ins of Slurm's headers, and against these."""

import ctypes
import ctypes.util
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from cluster_loopback import Loopback, installed, program

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests/cluster"
SITES = {"three_kinds": ROOT / "examples/cluster/three_kinds.toml",
         "unlike": CASES / "sites/unlike.toml", "off": CASES / "sites/off.toml"}
SEED = 5
FIELDS = ("partition", "tres_per_job", "tres_per_node", "tres_per_task", "min_nodes", "num_tasks",
          "ntasks_per_node", "het_job_offset", "tres_per_socket", "max_nodes", "ntasks_per_tres")
USERS = ("root", "eva", "tom", "zoe")  # by uid, as rule_driver.cc has them
PLAIN = dict.fromkeys(FIELDS)


def request(uid=3, **fields):
  return (uid, PLAIN | fields)


def requests(site: str) -> list:
  """Each value of each field alone, then many drawn at random."""
  lines = (CASES / "golden" / site / "slurm/job_submit.lua").read_text().splitlines()
  quoted = [line.split('"')[1] for line in lines if line.startswith('    {name = "')]
  names = [*quoted, "nowhere", ",", "", f"{quoted[-1]},{quoted[-1]}", f"{quoted[-1]},{quoted[0]}"]
  one = ["gpu", "gpu:1", "gres:gpu:2", "gres/gpu=3", "gres:gpu:k40:1", "gres/gpu:v100:8",
         "gres/gpu:v100=9", "gres:gpu:a100:4", "gpu:p100", "gpu:v100", "npu:910:8",
         "gres/npu:910=16", "gres/npu", "craynetwork:2", "gpu:0", "gpu:", "gpu::", ":", "gpu:v100:",
         "gpu:16", "gpu:17", "gpu:33", "gpu:v100:1,gpu:v100:2", "gpu:123456789012", "gres/", "12",
         "cpu=1,gres/gpu=1"]
  several = ["gpu:k40:1,gpu:v100:1", "gpu:1,npu:910:1"]
  texts = [None, None, None, "", *one, *several]
  counts = [None, None, 0, 1, 2, 3, 4, 5, 70000]
  pools = {"partition": [None, None, *names], "tres_per_job": texts, "tres_per_node": texts,
           "tres_per_task": texts, "min_nodes": counts, "num_tasks": counts,
           "ntasks_per_node": [None, 0, 1, 8], "het_job_offset": [None, None, 0, 1],
           "tres_per_socket": [None] * 40 + ["", "gres:gpu:4", "gres/gpu:p100", "craynetwork:2"],
           "max_nodes": counts, "ntasks_per_tres": [None] * 8 + [0, 1, 2, 3, 8]}
  all_ = [request(uid, **{field: value, **more})
          for field, pool in pools.items() for value in pool for uid in (1, 3)
          for more in ({}, {"tres_per_node": "gres:gpu:1"}, {"tres_per_job": "gres/gpu:8"})
          if field not in more]
  drawn = random.Random(SEED)
  for _ in range(4000):
    # Most requests use one way to ask for chips.
    fields = {field: drawn.choice(pool) for field, pool in pools.items()}
    for field in drawn.sample(FIELDS[1:4], drawn.choice((1, 2, 2, 2))):
      fields[field] = None
    all_.append((drawn.randrange(4), fields))
  return all_


def names_several_kinds(fields) -> bool:
  """Then the first of several reasons is any of them in Lua."""
  return "," in "".join(fields[key] or "" for key in (*FIELDS[1:4], "tres_per_socket"))


def lua_value(value) -> str:
  if value is None:
    return "nil"
  if isinstance(value, int):
    return str(value)
  return '"' + "".join(f"\\{ord(c):03}" for c in value) + '"'


def run_lua(source: str) -> str:
  """What a chunk returns."""
  name = next((found for version in ("5.1", "5.3", "5.4", "5.2")
               if (found := ctypes.util.find_library(f"lua{version}"))), None)
  assert name, "this test needs the library of Lua that slurmctld's packages bring (liblua5.1-0)"
  lua = ctypes.CDLL(name)
  for function in ("luaL_newstate", "lua_tolstring"):
    getattr(lua, function).restype = ctypes.c_void_p
  state = ctypes.c_void_p(lua.luaL_newstate())
  try:
    lua.luaL_openlibs(state)
    code = lua.luaL_loadstring(state, source.encode())
    if not code and hasattr(lua, "lua_pcallk"):
      code = lua.lua_pcallk(state, 0, 1, 0, ctypes.c_ssize_t(0), None)
    elif not code:
      code = lua.lua_pcall(state, 0, 1, 0)
    length = ctypes.c_size_t()
    text = lua.lua_tolstring(state, -1, ctypes.byref(length))
    result = ctypes.string_at(text, length.value).decode() if text else "nothing"
    assert code == 0, result
    return result
  finally:
    lua.lua_close(state)


def decide_by_lua(rule: str, all_, verb="submit") -> list[str]:
  rows = []
  for uid, fields in all_:
    values = {"min_nodes": 0xfffffffe, "max_nodes": 0xfffffffe, "num_tasks": 0xfffffffe,
              "ntasks_per_node": 0xfffe, "ntasks_per_tres": 0xfffe, "het_job_offset": 0xfffffffe}
    values |= {k: v for k, v in fields.items() if v is not None}
    row = ", ".join(f"{key} = {lua_value(value)}" for key, value in values.items())
    rows.append(f"  {{uid = {uid}, job = {{user_name = {lua_value(USERS[uid])}, {row}}}}},")
  chunk = f"""
local problem
slurm = {{NO_VAL = 0xfffffffe, NO_VAL16 = 0xfffe, NO_VAL64 = 0xfffffffffffffffe, SUCCESS = 0,
         ERROR = -1, log_user = function(...) problem = string.format(...) end}}
local function rule()
{rule}
end
rule()
local all, out = {{
{chr(10).join(rows)}
}}, {{}}
for i, each in ipairs(all) do
  local code
  if {lua_value(verb)} == "submit" then
    code = slurm_job_submit(each.job, {{}}, each.uid)
  else
    code = slurm_job_modify(each.job, {{}}, {{}}, each.uid)
  end
  out[i] = code == slurm.SUCCESS and (each.job.partition or "\\1") or "!" .. problem
end
return table.concat(out, "\\n")
"""
  return run_lua(chunk).split("\n")


def decide_by_plugin(driver: Path, all_, verb="submit") -> list[str]:
  lines = []
  for uid, fields in all_:
    values = ("\1" if fields[field] is None else str(fields[field]) for field in FIELDS)
    lines.append("\t".join((verb, str(uid), *values)))
  done = subprocess.run([driver], input="\n".join(lines) + "\n", capture_output=True, text=True,
                        timeout=300, check=True)
  return done.stdout.splitlines()


def compiler() -> str:
  found = shutil.which("c++") or shutil.which("g++")
  assert found, "this test needs a C++ compiler: ./dev setup installs g++"
  return found


def headers_of_slurm() -> Path:
  path = Path("/usr/include")
  assert (path / "slurm/slurm.h").exists(), "this test needs libslurm-dev: ./dev setup installs it"
  return path


@pytest.fixture(scope="module", params=["stand-in", "slurm"])
def built(request, tmp_path_factory):
  """By site, a program that asks the plugin."""
  headers = CASES / "headers" if request.param == "stand-in" else headers_of_slurm()
  folder = tmp_path_factory.mktemp(f"rule-{request.param}")
  started = []
  for name, site in SITES.items():
    out = folder / name
    subprocess.run([program(), "cluster", "compile", site, "-o", out, "--for", "slurm"], check=True,
                   capture_output=True, timeout=120)
    started.append(subprocess.Popen(
      [compiler(), "-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", headers, "-o", folder /
       f"{name}-driver", out / "slurm/job_submit_stretto.cpp", CASES / "rule_driver.cc"],
      stderr=subprocess.PIPE, text=True))
  for each in started:
    complaint = each.communicate(timeout=600)[1]
    assert each.returncode == 0, complaint
  return folder


@pytest.mark.parametrize("site", SITES)
def test_both_forms_decide_the_same(built, site):
  rule = (built / site / "slurm/job_submit.lua").read_text()
  all_ = requests(site)
  lua = decide_by_lua(rule, all_)
  plugin = decide_by_plugin(built / f"{site}-driver", all_)
  assert len(lua) == len(plugin) == len(all_)
  for asked, first, second in zip(all_, lua, plugin):
    if names_several_kinds(asked[1]) and first[0] == second[0] == "!":
      continue
    assert first == second, f"{asked}, seed {SEED}"
  routed = {text for text in plugin if text[0] not in "!\1"}
  refused = {text for text in plugin if text[0] == "!"}
  assert len(routed) > 5 and len(refused) > 20, "the table has requests of all kinds"


def test_neither_form_lets_users_change_chips_or_partitions(built):
  rule = (built / "unlike/slurm/job_submit.lua").read_text()
  changes = [*({field: "gpu:1"} for field in (*FIELDS[:4], "tres_per_socket")),
             *({field: 2} for field in ("min_nodes", "max_nodes", "num_tasks", "ntasks_per_node",
                                    "ntasks_per_tres"))]
  all_ = [request(uid, **fields) for uid in (0, 1) for fields in ({}, *changes)]
  lua = decide_by_lua(rule, all_, "modify")
  plugin = decide_by_plugin(built / "unlike-driver", all_, "modify")
  assert lua == plugin
  assert [text[0] == "!" for text in lua] == [False] * 12 + [True] * 10


def test_chips_per_socket_are_refused(built):
  rule = (built / "three_kinds/slurm/job_submit.lua").read_text()
  all_ = [request(tres_per_socket=text, min_nodes=2)
          for text in ("gres:gpu:4", "gres/gpu:v100=4", "craynetwork:2")]
  lua = decide_by_lua(rule, all_)
  assert lua == decide_by_plugin(built / "three_kinds-driver", all_)
  assert all("chips per socket are not counted: ask for them per node" in text for text in lua[:2])
  assert "per socket" not in lua[2]


def test_chips_follow_from_tasks_per_gpu(built):
  """As slurmctld gives them, which the next test and test_cluster_policy.py ask."""
  rule = (built / "three_kinds/slurm/job_submit.lua").read_text()
  all_ = [request(num_tasks=8, ntasks_per_tres=1), request(num_tasks=8, ntasks_per_tres=8),
          request(num_tasks=8, ntasks_per_tres=4, min_nodes=2),
          request(num_tasks=34, ntasks_per_tres=1),
          request(num_tasks=8, ntasks_per_tres=2, tres_per_job="gres:gpu:1"),
          request(num_tasks=8, ntasks_per_tres=0), request(num_tasks=8)]
  lua = decide_by_lua(rule, all_)
  assert lua == decide_by_plugin(built / "three_kinds-driver", all_)
  single = "normal.single,normal.single.spare"
  assert lua[:3] == ["normal.multi,normal.multi.spare", single, "normal.multi"]
  assert "a job of 34 chips belongs to group 'multi': its nodes have" in lua[3]
  assert lua[4] == single, "chips that are named count"
  assert lua[5] == lua[6] == decide_by_lua(rule, [request()])[0]


def test_slurmctld_obeys_the_plugin(tmp_path_factory):
  """The same requests as in test_cluster_policy.py, of each outcome one."""
  assert installed(), "this test needs Slurm: apt-get install slurmctld slurmd slurm-client"
  folder = tmp_path_factory.mktemp("slurm")
  cluster = Loopback(folder, SITES["three_kinds"].read_text())
  plugins = next(Path("/usr/lib").glob("*/slurm-wlm"))
  subprocess.run([compiler(), "-std=c++17", "-fPIC", "-shared", "-I", headers_of_slurm(), "-o",
                  folder / "job_submit_stretto.so", folder / "etc/job_submit_stretto.cpp"],
                 check=True, timeout=300)
  conf = folder / "etc/slurm.conf"
  conf.write_text(conf.read_text().replace("JobSubmitPlugins=lua", "JobSubmitPlugins=stretto") +
                  f"PluginDir={plugins}:{folder}\n")
  with cluster:
    job = cluster.submit("-H", "-N2", "--gres=gpu:v100:8")
    assert " Partition=normal.multi " in cluster.must("scontrol", "-o", "show", "job", job)
    job = cluster.submit("-H", "--gres=gpu:1")
    assert " Partition=normal.single,normal.single.spare " in \
        cluster.must("scontrol", "-o", "show", "job", job)
    assert "a job of 2 chips belongs to group 'multi': its nodes have no k40" in \
        cluster.refusal("--gres=gpu:k40:2")
    job = cluster.submit("-H", "-n4", "--ntasks-per-gpu=2")
    assert " Partition=normal.multi,normal.multi.spare " in \
        cluster.must("scontrol", "-o", "show", "job", job)
    assert "chips per socket are not counted" in \
        cluster.refusal("-N1", "--gpus-per-socket=v100:4", "--sockets-per-node=2")
    checked = subprocess.run([program(), "cluster", "compile", folder / "site.toml", "--check",
                              "--for", "slurm"], env=cluster.environment, capture_output=True,
                             text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
