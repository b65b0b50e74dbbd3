"""What a job on Kubernetes asks for: images, pods and their chips, checked as far as it can be."""

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
Nodes = dict[str, tuple[dict[str, int], int]]  # by kind: chips of a node by resource, and nodes


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
  if request.volume and not CLAIM.fullmatch(request.volume):
    raise ValueError(f"--volume: expected the name of a PersistentVolumeClaim, got "
                     f"{request.volume!r}")
  for resource in request.resources.values():
    if not RESOURCE.fullmatch(resource):
      raise ValueError(f"--resource: expected DOMAIN/NAME, such as nvidia.com/gpu, got "
                       f"{resource!r}")


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
