"""Writes tests/cluster/crds from clones of Kueue and JobSet: schemas of the objects that `stretto
cluster compile` and `stretto cluster run` write, without descriptions, in which unknown fields are
errors.

  python tests/cluster/reduce_crds.py KUEUE JOBSET
"""

import json
import sys
from pathlib import Path

import yaml

KUEUE, JOBSET = ("kueue.x-k8s.io", "v1beta2"), ("jobset.x-k8s.io", "v1alpha2")
KINDS = {"ClusterQueue": (KUEUE, "clusterqueues"), "LocalQueue": (KUEUE, "localqueues"),
         "ResourceFlavor": (KUEUE, "resourceflavors"), "Topology": (KUEUE, "topologies"),
         "WorkloadPriorityClass": (KUEUE, "workloadpriorityclasses"),
         "JobSet": (JOBSET, "jobsets")}
# Of pods: what jobs do not use, and what would make the file five times as large.
LEFT_OUT = {"affinity", "ephemeralContainers", "initContainers", "lifecycle", "livenessProbe",
            "readinessProbe", "startupProbe", "volumeClaimTemplate"}


def without(schema: dict, names: set[str]):
  """Fields that are left out are unknown, and so errors."""
  for name, each in list(schema.items()):
    if name in names:
      del schema[name]
    elif isinstance(each, dict):
      without(each, names)


def reduced(schema: dict) -> dict:
  """What a JSON Schema checker understands; rules in CEL and the server's defaults are left out."""
  out = {}
  for key, value in schema.items():
    if key == "properties":
      out[key] = {name: reduced(each) for name, each in value.items()}
      out["additionalProperties"] = False
    elif key in ("items", "additionalProperties") and isinstance(value, dict):
      out[key] = reduced(value)
    elif key in ("allOf", "anyOf", "oneOf"):
      out[key] = [reduced(each) for each in value]
    elif key == "x-kubernetes-int-or-string":
      out["type"] = ["integer", "string"]
    elif key in ("type", "enum", "pattern", "required", "minimum", "maximum", "minLength",
                 "maxLength", "minItems", "maxItems", "maxProperties", "minProperties"):
      out[key] = value
  return out


def main(clones: dict[tuple[str, str], Path]):
  folder = Path(__file__).parent / "crds"
  folder.mkdir(exist_ok=True)
  for kind, (project, plural) in KINDS.items():
    group, version = project
    path = clones[project] / f"config/components/crd/bases/{group}_{plural}.yaml"
    versions = yaml.safe_load(path.read_text())["spec"]["versions"]
    schema = next(v for v in versions if v["name"] == version)["schema"]["openAPIV3Schema"]
    schema = reduced(schema)
    schema["properties"]["apiVersion"] = {"enum": [f"{group}/{version}"]}
    schema["properties"]["kind"] = {"enum": [kind]}
    schema["properties"]["metadata"] = {
      "type": "object", "additionalProperties": False, "required": ["name"],
      "properties": {"name": {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"},
                     "namespace": {"type": "string"}, "labels": {"type": "object"}}}
    if kind in ("JobSet", "LocalQueue"):
      schema["properties"]["metadata"]["properties"]["annotations"] = {"type": "object"}
    if kind == "JobSet":
      del schema["properties"]["status"]
      without(schema, LEFT_OUT)
    (folder / f"{kind.lower()}.json").write_text(json.dumps(schema, indent=1) + "\n")


if __name__ == "__main__":
  main({KUEUE: Path(sys.argv[1]), JOBSET: Path(sys.argv[2])})
