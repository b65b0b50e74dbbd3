"""Builds the documentation site: collects the pages, generates the reference, runs MkDocs.

  python docs/site/build.py --package build/dev/python        (./dev docs does so)

The site lands in build/docs. Any warning of MkDocs, such as a link that leads nowhere, is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import command
import cxx
import formats
import operators
import pages

ROOT = Path(__file__).resolve().parents[2]
# The modules that have a page, and what it shows, in this order; nothing means all public names.
PYTHON = {"stretto": ("optimize", "load", "convert", "Model", "Context", "generate", "stream",
                      "TensorSpec", "Report", "list_passes", "manual_seed", "Error",
                      "InvalidArgumentError", "UnsupportedError", "FormatError", "CommError",
                      "InternalError"),
          "stretto.ops": ("Context", "Operator", "Constant", "constant", "default_context",
                          "conv2d", "linear", "matmul", "softmax", "layer_norm", "max_pool2d",
                          "avg_pool2d", "relu", "gelu", "attention"),
          "stretto.comm": ("Engine", "Gradients"),
          "stretto.torch": (), "stretto.horovod": (), "stretto.jax": (), "stretto.tensorflow": (),
          "stretto.keras": (),
          "stretto.onnx_backend": ("prepare", "run_model", "run_node", "supports_device",
                                   "StrettoRep"),
          "stretto.media": ("Imagenet", "Letterbox", "Resize", "CenterCrop", "Normalize",
                            "ToLayout"),
          "stretto.data": ("ImageLoader", "open", "concat", "Dataset", "pack", "verify", "unpack",
                           "follow", "torch_dataset", "DictIterator")}


def python_pages() -> dict[str, str]:
  """A page per module, for mkdocstrings to fill."""
  pages = {}
  for module, shown in PYTHON.items():
    members = f"      members: [{', '.join(shown)}]\n" if shown else ""
    pages[f"python/{module.removeprefix('stretto.')}.md"] = (
      f"# Python: {module}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
      + members)
  return pages


def generated(package: Path) -> dict[str, str]:
  """Path below reference/ -> Markdown."""
  environment = {**os.environ, "PYTHONPATH": str(package.resolve())}
  return python_pages() | {
    "cpp.md": cxx.page("C++", cxx.CPP_HEADERS), "c.md": cxx.page("C", cxx.C_HEADERS),
    "cli.md": command.cli_page(command.ask(environment, "help")),
    "environment.md": command.environment_page(
      command.ask(environment, "help", "environment")["environment"]),
    "operators.md": operators.page(command.ask(environment, "operators")),
    "json.md": formats.json_page(environment), "bytes.md": formats.bytes_page()}


def repository() -> str:
  return re.search(r"^repo_url: (\S+)", (ROOT / "mkdocs.yml").read_text(), re.M)[1]


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)
  parser.add_argument("--package", type=Path, required=True,
                      help="folder of the built Python package, whose command describes itself")
  args = parser.parse_args()
  source = ROOT / "build/docs-source"
  pages.collect(source, repository())
  for name, text in generated(args.package).items():
    file = source / "reference" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
  return subprocess.run([sys.executable, "-m", "mkdocs", "build", "--clean", "--strict"], cwd=ROOT,
                        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
  sys.exit(main())
