"""Writes tests/cluster/crds from a clone of Kueue: schemas of the objects that `stretto cluster
compile` writes, without descriptions, in which unknown fields are errors.

  python tests/cluster/reduce_crds.py KUEUE
"""

import json
import sys
from pathlib import Path

import yaml

KINDS = {"ClusterQueue": "clusterqueues", "LocalQueue": "localqueues",
         "ResourceFlavor": "resourceflavors", "Topology": "topologies",
         "WorkloadPriorityClass": "workloadpriorityclasses"}
VERSION = "v1beta2"


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


def main(clone: Path):
  folder = Path(__file__).parent / "crds"
  folder.mkdir(exist_ok=True)
  for kind, plural in KINDS.items():
    path = clone / f"config/components/crd/bases/kueue.x-k8s.io_{plural}.yaml"
    versions = yaml.safe_load(path.read_text())["spec"]["versions"]
    schema = next(v for v in versions if v["name"] == VERSION)["schema"]["openAPIV3Schema"]
    schema = reduced(schema)
    schema["properties"]["apiVersion"] = {"enum": [f"kueue.x-k8s.io/{VERSION}"]}
    schema["properties"]["kind"] = {"enum": [kind]}
    schema["properties"]["metadata"] = {
      "type": "object", "additionalProperties": False, "required": ["name"],
      "properties": {"name": {"type": "string", "pattern": r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"},
                     "namespace": {"type": "string"}, "labels": {"type": "object"}}}
    (folder / f"{kind.lower()}.json").write_text(json.dumps(schema, indent=1) + "\n")


if __name__ == "__main__":
  main(Path(sys.argv[1]))
