"""import/onnx/signatures.inc, the inputs and attributes of ONNX's operators, is what the package
onnx says. `python tests/python/test_onnx_signatures.py` writes it."""

import sys
from pathlib import Path

import pytest

onnx = pytest.importorskip("onnx")
from onnx import defs, helper  # noqa: E402

FILE = Path(__file__).parents[2] / "src/stretto/import/onnx/signatures.inc"
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training")
NEWEST = 28  # kNewestOpset of import/onnx/schema.h
MARKS = {"Single": "", "Optional": "?", "Variadic": "..."}
KINDS = {"FLOAT": "float", "INT": "int", "STRING": "string", "TENSOR": "tensor", "GRAPH": "graph",
         "FLOATS": "floats", "INTS": "ints", "STRINGS": "strings"}


def ports(list_of_ports):
  return " ".join(port.name + MARKS[port.option.name] for port in list_of_ports)


def number(value):
  return f"{value:.7g}" if isinstance(value, float) else str(value)


def default(attribute):
  value = helper.get_attribute_value(attribute)
  if isinstance(value, bytes):
    value = value.decode()
  if isinstance(value, (list, tuple)):
    words = [v.decode() if isinstance(v, bytes) else number(v) for v in value]
    return f"[{','.join(words)}]"
  return number(value)


def attributes(schema):
  words = []
  for name, attribute in sorted(schema.attributes.items()):
    kind = KINDS.get(attribute.type.name, "other")
    word = f"{name}:{kind}"
    if attribute.required:
      word += "!"
    elif attribute.default_value.name:
      word += "=" + default(attribute.default_value)
    words.append(word)
  return " ".join(words)


def quoted(text):
  """A C++ string literal, on lines of its own where it is long."""
  if len(text) < 20:
    return f' "{text}"'
  lines, line = [], ""
  for word in text.split(" "):
    if len(line) + len(word) > 80:
      lines.append(line)
      line = ""
    line += word + " "
  lines.append(line.rstrip())
  return "".join(f'\n  "{line}"' for line in lines)


def content():
  rows = ["// Written by tests/python/test_onnx_signatures.py from the schemas of ONNX, opset 28:",
          "// domain, operator, inputs, outputs, attributes. `?` marks an optional input, `...`",
          "// one that may be repeated, `!` a required attribute; `=` comes before a default.",
          "// clang-format off"]
  schemas = [s for s in defs.get_all_schemas() if s.domain in DOMAINS and not s.deprecated]
  for schema in sorted(schemas, key=lambda s: (DOMAINS.index(s.domain), s.name)):
    words = (ports(schema.inputs), ports(schema.outputs), attributes(schema))
    rows.append(f'{{"{schema.domain}", "{schema.name}",'
                f"{','.join(quoted(text) for text in words)}}},")
  return "\n".join(rows) + "\n// clang-format on\n"


def test_the_table_is_what_onnx_says():
  if defs.onnx_opset_version() != NEWEST:
    pytest.skip(f"the table is that of opset {NEWEST}, which this package onnx does not end with")
  assert FILE.read_text() == content()


if __name__ == "__main__":
  sys.exit(FILE.write_text(content()) <= 0)
