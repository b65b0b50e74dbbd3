"""What a job on Kubernetes asks for: images, pods and their chips, processors and memory, checked
as far as it can be."""

from __future__ import annotations

import math
import re

from stretto.cluster import _kubernetes_manifest as manifest
from stretto.cluster import _slurm
from stretto.cluster._backend import Chips, Request
from stretto.cluster._host import ClusterError

IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
RESOURCE = re.compile(r"[a-z0-9][a-z0-9.-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGT]i?)?")
USER = re.compile(r"([0-9]{1,9})(?::([0-9]{1,9}))?")
Nodes = dict[str, tuple[dict[str, int], int]]  # by kind: chips of a node by resource, and nodes
Sizes = dict[str, tuple[int, int]]  # by kind: thousandths of processors, bytes of the smallest node
CPUS, BYTES = 1000, 1 << 30  # of a rank, where neither the user nor the nodes say how many
SHARE = 0.5  # of a node, per its chips: what else runs there needs some, and a site keeps some back


def check(request: Request) -> None:
  """ValueError for what no cluster could run."""
  for kind in ("", *(part.kind for part in request.parts)):
    image = request.images.get(kind, request.images.get("", ""))
    if not image and (kind or not any(part.kind for part in request.parts)):
      what = f"--image {kind}=IMAGE" if kind else "--image IMAGE"
      raise ValueError(f"{what}: jobs on Kubernetes run in a container; name an image that has "
                       "Python 3 and what the script imports")
    if image and not IMAGE.fullmatch(image):
      raise ValueError(f"--image: expected REGISTRY/NAME:TAG, got {image!r}")
  if unknown := set(request.images) - {""} - {part.kind for part in request.parts}:
    raise ValueError(f"--image {min(unknown)}=...: there is no --chips {min(unknown)}:N")
  bytes_of(request.memory)
  if run_as(request.run_as)[0] == 0 and request.restricted:
    raise ValueError("--run-as 0: --restricted pods do not run as root")
  if request.volume and not CLAIM.fullmatch(request.volume):
    raise ValueError(f"--volume: expected the name of a PersistentVolumeClaim, got "
                     f"{request.volume!r}")
  for resource in request.resources.values():
    if not RESOURCE.fullmatch(resource):
      raise ValueError(f"--resource: expected DOMAIN/NAME, such as nvidia.com/gpu, got "
                       f"{resource!r}")


def run_as(text: str) -> tuple[int | None, int | None]:
  """Of --run-as: user and group."""
  found = USER.fullmatch(text)
  if text and not found:
    raise ValueError(f"--run-as: expected the numbers UID or UID:GID, such as 1000:1000, got "
                     f"{text!r}")
  return (int(found[1]), int(found[2]) if found[2] else None) if found else (None, None)


def bytes_of(text: str) -> int:
  """Of --memory; 0: it was not given."""
  if not text:
    return 0
  found = MEMORY.fullmatch(text.removesuffix("B"))
  unit = found[2] or "" if found else ""
  size = int(float(found[1]) * (1024 if unit.endswith("i") else 1000) **
             (" KMGT".index(unit[0]) if unit else 0)) if found else 0
  if size < 1 << 20:
    raise ValueError(f"--memory: expected a size from 1 MiB on, such as 4Gi or 500M, got {text!r}")
  return size


def needs(part: manifest.Part, request: Request, sizes: Sizes,
          most: int) -> manifest.Part:
  """With the processors and the memory of a pod. Without any, the scheduler puts all pods on one
  node, Kueue counts nothing, and quotas of a namespace refuse them. `most`: chips of a node."""
  ranks = part.ranks // part.pods
  millicpus, memory = CPUS * ranks, BYTES * ranks
  if part.chips and most and part.kind in sizes:
    millicpus, memory = (int(size * SHARE * part.chips / most) for size in sizes[part.kind])
  given = bytes_of(request.memory)
  return part._replace(
    millicpus=max(round(request.cpus * 1000) * ranks if request.cpus else millicpus, 1),
    memory=given * ranks if given else max(memory >> 20 << 20, 1 << 20), limited=bool(given))


def shape(part: Chips, nodes: Nodes | None,
          resources: dict[str, str]) -> manifest.Part:
  """Pods and their chips. `nodes`: by kind, chips per node and resource, and how many nodes there
  are; None: there is no permission to look at them."""
  if not part.total:
    pods = part.nodes or part.ranks
    if part.ranks % pods:
      raise ValueError(f"-n {part.ranks}: does not divide into {pods} nodes")
    return manifest.Part("", pods, part.ranks, "", "")
  asked = f"--chips {part.kind}:{part.total}"
  named = resources.get(part.kind, resources.get("", ""))
  if nodes is None:
    if not named:
      raise ClusterError(f"{asked}: you may not look at the nodes of this cluster; --resource "
                         f"{part.kind}=DOMAIN/NAME says what such chips are called there")
    pods = part.nodes or math.gcd(part.ranks, part.total)
  else:
    named, most, count = resource_of(part, nodes, named)
    if part.total > most * count:
      raise ClusterError(f"{asked}: all nodes together have {most * count}")
    pods = part.nodes or _slurm.fewest_nodes(part.total, most)
    if part.total // pods > most:
      raise ClusterError(f"{asked}: a node has {most} at most; --nodes "
                         f"{_slurm.fewest_nodes(part.total, most)} or more")
  if part.ranks % pods:
    raise ValueError(f"-n {part.ranks}: does not divide into the {pods} nodes of {asked}")
  return manifest.Part("", pods, part.ranks, "", "", part.kind, named, part.total // pods)


def resource_of(part: Chips, nodes: Nodes,
                named: str) -> tuple[str, int, int]:
  """What Kubernetes calls the chips, how many a node has, and how many such nodes there are."""
  asked = f"--chips {part.kind}:{part.total}"
  if part.kind not in nodes:
    known = ", ".join(f"{kind} ({count} nodes)" for kind, (_, count) in sorted(nodes.items()))
    raise ClusterError(f"{asked}: no node has the label {manifest.CHIP_LABEL}={part.kind}; "
                       + (f"there are {known}" if known else "none has this label at all, which "
                          "label-nodes.sh of `stretto cluster compile` sets"))
  chips, count = nodes[part.kind]
  if named and named not in chips:
    raise ClusterError(f"{asked}: its nodes have no {named}, but {', '.join(chips) or 'no chips'}")
  if not named and len(chips) != 1:
    raise ClusterError(f"{asked}: its nodes have {', '.join(sorted(chips)) or 'no chips'}; "
                       f"--resource {part.kind}=DOMAIN/NAME says which are meant")
  named = named or next(iter(chips))
  return named, chips[named], count
