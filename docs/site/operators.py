"""Writes the page of operators: Stretto's table, beside the opsets in which ONNX changed them."""

from __future__ import annotations

from typing import Any

from command import cell, code, table

MARKS = {"required": "", "optional": "?", "variadic": "..."}
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def onnx_versions(oldest: int, newest: int) -> dict[str, list[int]]:
  """Operator of ONNX's own domain -> the opsets that changed it, as far as they matter between
  `oldest` and `newest`."""
  from onnx import defs

  found: dict[str, set[int]] = {}
  for schema in defs.get_all_schemas_with_history():
    if schema.domain == "" and not schema.deprecated and schema.since_version <= newest:
      found.setdefault(schema.name, set()).add(schema.since_version)
  return {name: [v for v in sorted(versions)
                 if v >= max((v for v in versions if v <= oldest), default=0)]
          for name, versions in found.items()}


def ports(operator: dict[str, Any], side: str) -> str:
  return code(", ".join(port["name"] + MARKS[port["arity"]] for port in operator[side]))


def types(operator: dict[str, Any]) -> str:
  """Of the first input, which holds the data."""
  names = list((operator["inputs"] or operator["outputs"] or [{"dtypes": []}])[0]["dtypes"])
  if set(INTEGERS) <= set(names):
    names = [name for name in names if name not in INTEGERS] + ["integers"]
  return ", ".join(names)


def notes(operator: dict[str, Any]) -> str:
  becomes = operator["becomes"]
  return cell("; ".join(([f"read as {becomes}"] if becomes else []) + operator["limits"]))


def page(answer: dict[str, Any]) -> str:
  """From what `stretto operators --json` prints."""
  oldest, newest = answer["opsets"]
  versions = onnx_versions(oldest, newest)
  operators = answer["operators"]
  missing = sorted(set(versions) - {o["name"] for o in operators} - {"Constant"})
  rows = [[f"[{o['name']}](https://onnx.ai/onnx/operators/onnx__{o['name']}.html)",
           ", ".join(map(str, versions.get(o["name"], []))), ports(o, "inputs"), types(o), notes(o)]
          for o in operators]
  return "\n\n".join([
    "# Operators",
    "This page lists the ONNX operators that a model may have, as `stretto operators` does.",
    f"Stretto reads opsets {oldest} to {newest}. When a model is read, older forms of an operator "
    "are brought to the newest form. The second column has the opsets that changed the operator. "
    "`?` marks an optional input, `...` one that may be repeated.",
    f"## {len(operators)} operators that a model may have",
    table(["operator", "opsets", "inputs", "types of the first input", "limits"], rows),
    "`Constant` becomes a value, and functions in a model are expanded.",
    f"## {len(missing)} operators of ONNX that Stretto does not have",
    "A model with one of them raises `UnsupportedError`, which names all that are missing.",
    ", ".join(code(name) for name in missing) + ".",
  ]) + "\n"
