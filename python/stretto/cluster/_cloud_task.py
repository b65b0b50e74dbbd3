"""The task file of a job in a cloud, as SkyPilot reads it, and the folder that it gets: the tree,
and the few files of Stretto that start the ranks."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

from stretto.cluster import _agent
from stretto.cluster._backend import Request
from stretto.cluster._cloud_node import TREE
from stretto.cluster._slurm import SECRET, fewest_nodes
from stretto.cluster._slurm_script import seconds_of

SENT = "send"  # folder of the job that SkyPilot copies into ~/sky_workdir of every node
TASK = "task.yaml"
MOST_CHIPS = 8  # of a node, where --nodes does not say how many
FIRST_PORT, PORTS = 20000, 12000  # below those that Linux gives to whoever asks for any
PACKAGE = Path(__file__).resolve().parents[1]
# What a node needs of Stretto; none of these files imports another package.
NEEDED = ("_processes.py", "_rank.py", "_rank_output.py", "cluster/_agent.py",
          "cluster/_cloud_node.py", "cluster/_task.py")
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
# Words that YAML 1.1 takes for something else than a text.
SPECIAL = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}


def nodes_of(request: Request) -> int:
  """ValueError for what a cluster of SkyPilot cannot be."""
  kinds = [f"{part.kind}:{part.total}" for part in request.parts]
  if len(request.parts) > 1:
    raise ValueError(f"--chips {' and '.join(kinds)}: the nodes of a cluster of SkyPilot are "
                     "alike. Describe both kinds in a site file: `stretto cluster compile SITE "
                     "-o DIR --terraform aws` writes a Slurm site in a cloud, which takes such "
                     "jobs")
  part = request.parts[0]
  nodes = part.nodes or (fewest_nodes(part.total, MOST_CHIPS) if part.total else 1)
  if part.ranks % nodes:
    raise ValueError(f"-n {part.ranks}: does not divide into {nodes} nodes")
  return nodes


def config(request: Request, tag: str, infra: str, setup: str) -> dict[str, Any]:
  """The task, in the words of SkyPilot's schema."""
  part, nodes = request.parts[0], nodes_of(request)
  resources: dict[str, Any] = {"infra": infra} if infra else {}
  if part.total:
    resources["accelerators"] = f"{part.kind}:{part.total // nodes}"
  else:
    resources["cpus"] = f"{part.ranks // nodes}+"
  program = f"python3 {tag}/stretto/cluster/_cloud_node.py"
  task: dict[str, Any] = {"name": name_of(tag), "workdir": SENT, "num_nodes": nodes,
                          "resources": resources}
  if request.environment:
    task["envs"] = request.environment
  task["secrets"] = dict.fromkeys([*request.secrets, SECRET])  # their values are not in this file
  if setup:
    task["setup"] = f"{program} --unpack && cd {tag}/work || exit 1\n{setup.rstrip()}\n"
  task["run"] = f"{program}\n"
  return task


def name_of(tag: str) -> str:
  return f"stretto-{tag}"


def spec(request: Request, tag: str) -> dict[str, Any]:
  """What a node has to know."""
  return {"ranks": request.ranks, "nodes": nodes_of(request), "inside": request.inside,
          "python": request.parts[0].python or request.python or "python3",
          "limit_s": seconds_of(request.time) if request.time else 0,
          "port": FIRST_PORT + int(tag, 16) % PORTS}


def yaml(value: dict[str, Any], indent: str = "") -> str:
  """Block style. Texts are in quotes unless they are plain words of ASCII."""
  out = ""
  for key, each in value.items():
    if isinstance(each, dict):
      out += f"{indent}{scalar(key)}:\n{yaml(each, indent + '  ')}"
    elif isinstance(each, str) and is_block(each):
      lines = each.rstrip("\n").split("\n")
      out += f"{indent}{scalar(key)}: |\n" + "".join(f"{indent}  {line}".rstrip() + "\n"
                                                     for line in lines)
    else:
      out += f"{indent}{scalar(key)}: {scalar(each)}\n"
  return out


def is_block(text: str) -> bool:
  """Whether the text can stand as lines of its own, and comes back as it is."""
  lines = text.split("\n")
  return (len(lines) > 1 and lines[-1] == "" and bool(lines[-2]) and bool(lines[0])
          and not lines[0].startswith(" ")
          and all(line.isascii() and (line.isprintable() or not line) and line == line.rstrip()
                  for line in lines))


def scalar(value: str | int | None) -> str:
  if not isinstance(value, str):
    return "null" if value is None else str(value)
  if PLAIN.fullmatch(value) and value.lower() not in SPECIAL:
    return value
  return '"' + "".join(quoted(c) for c in value) + '"'


def quoted(c: str) -> str:
  number = ord(c)
  if 0xD800 <= number < 0xE000:
    raise ValueError("--env and --setup: a task file of SkyPilot takes no bytes that are not UTF-8")
  if c in '"\\':
    return "\\" + c
  if " " <= c <= "~":
    return c
  return f"\\x{number:02x}" if number < 0x100 else (
    f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}")


def check(task: dict[str, Any]) -> str | None:
  """What SkyPilot itself has against the task. Empty: nothing; None: it is not installed beside
  Stretto. `sky launch` checks it too, after a cluster may have been asked for."""
  try:
    sky = importlib.import_module("sky")
    exceptions = importlib.import_module("sky.exceptions")
  except ImportError:
    return None
  try:
    sky.Task.from_yaml_config(dict(task), secrets_overrides=[(n, "") for n in task["secrets"]])
  except (ValueError, exceptions.InvalidSkyPilotConfigError) as error:
    return str(error)
  return ""


def pack(folder: str, tag: str) -> None:
  """Makes the folder to be sent, of the tree that lies in the job's folder. The tree goes as one
  file: SkyPilot would leave out what a .gitignore names even if Git tracks it."""
  work = Path(folder, _agent.WORK)
  target = Path(folder, SENT, tag)
  (target / "stretto/cluster").mkdir(parents=True)
  Path(folder, SENT, ".skyignore").write_text("")
  for name in NEEDED:
    shutil.copyfile(PACKAGE / name, target / "stretto" / name)
  for package in ("", "cluster"):
    (target / "stretto" / package / "__init__.py").write_text("")
  with tarfile.open(target / TREE, "w") as tar:
    for name in sorted(_agent.files_in(str(work))):
      tar.add(work / name, arcname=name, recursive=False)
  for name in ("spec.json", "words.json"):
    shutil.copyfile(Path(folder, name), target / name)
  shutil.rmtree(work)
  work.mkdir()


def as_json(value: Any) -> str:
  return json.dumps(value, indent=1) + "\n"


def decoded(text: str, kind: type) -> Any:
  """The first JSON value of this kind in an output with notes around it; None: there is none."""
  opening = "{" if kind is dict else "["
  for line in re.finditer(r"^" + re.escape(opening), text, re.MULTILINE):
    try:
      value = json.JSONDecoder().raw_decode(text, line.start())[0]
    except ValueError:
      continue
    if isinstance(value, kind):
      return value
  return None
