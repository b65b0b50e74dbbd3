"""Docstrings: every public name has one, and the examples in them are run as tests."""

import ast
import doctest
import importlib
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest

import stretto
import stretto.comm

MODULES = ["stretto._context", "stretto._generate", "stretto._model", "stretto._optimize",
           "stretto._report", "stretto._convert", "stretto.comm", "stretto.media",
           "stretto.ops._context"]


@pytest.fixture(scope="module")
def names(cnn):
  """What the examples take for granted, with the file cnn.onnx in the folder."""
  torch = pytest.importorskip("torch")
  from decoder_models import Decoder, onnx_bytes

  decoder = stretto.optimize(onnx_bytes(Decoder("gpt")), tuning="off", progress=False)
  return {"stretto": stretto, "np": np, "tempfile": tempfile, "torch": torch, "decoder": decoder,
          "model": stretto.optimize(cnn, tuning="off")}


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, names, cnn_path, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / "cnn.onnx").write_bytes(cnn_path.read_bytes())
  found = doctest.DocTestFinder(exclude_empty=True).find(
    importlib.import_module(module), extraglobs=names)
  runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
  for test in found:
    runner.run(test)
  failed, attempted = runner.summarize()
  assert attempted > 0, f"{module} has no examples"
  assert failed == 0


PACKAGE = Path(stretto.__file__).parent
PUBLIC = ["stretto", "stretto.ops", "stretto.comm", "stretto.torch", "stretto.horovod",
          "stretto.horovod.elastic", "stretto.jax", "stretto.keras", "stretto.keras.callbacks",
          "stretto.media", "stretto.tensorflow",
          "stretto.tensorflow.callbacks", "stretto.onnx_backend", "stretto.data"]


def test_modules_without_an_underscore_are_the_documented_ones():
  modules = {".".join(["stretto", *path.relative_to(PACKAGE).with_suffix("").parts])
             .removesuffix(".__init__") for path in PACKAGE.rglob("*.py")}
  public = {module for module in modules if "._" not in module}
  # What these do is documented in docs/design/peers.md and docs/howto: pytorch.md, migrate.md and
  # cluster.md.
  assert public - {"stretto.peers", "stretto.aten", "stretto.migrate",
                   "stretto.cluster"} == set(PUBLIC)


def public_names(module):
  """Name, file and definition of what a module offers, without importing it."""
  path = PACKAGE.parent.joinpath(*module.split("."))
  path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
  tree = ast.parse(path.read_text())
  definitions = {node.name: node for node in tree.body
                 if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
  if module == "stretto.comm":
    names = ["Engine", "Gradients"]
  else:
    names = next(ast.literal_eval(node.value) for node in tree.body
                 if isinstance(node, ast.Assign) and node.targets[0].id == "__all__")
  sources = {alias.asname or alias.name: (node.module, alias.name) for node in tree.body
             if isinstance(node, ast.ImportFrom) for alias in node.names}
  for name in names:
    if name in definitions:
      yield name, definitions[name]
    elif name in sources and sources[name][0].startswith("stretto"):
      source, original = sources[name]
      file = PACKAGE.parent.joinpath(*source.split(".")).with_suffix(".py")
      if file.exists():
        for node in ast.parse(file.read_text()).body:
          if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == original:
            yield name, node


def problems(name, node, docstring):
  if not docstring:
    return [f"{name}: no docstring"]
  arguments = [a.arg for a in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
               if a.arg not in ("self", "cls")]
  found = [f"{name}: argument {a} is not described" for a in arguments
           if not re.search(rf"^ +{a}: ", docstring, re.M)]
  returns = node.returns is not None and ast.unparse(node.returns) not in ("None", "NoReturn")
  is_property = any(ast.unparse(d) == "property" for d in node.decorator_list)
  if returns and not is_property and node.name != "__init__" and "Returns:" not in docstring:
    found.append(f"{name}: what it returns is not described")
  return found


def undocumented(name, node):
  if isinstance(node, ast.FunctionDef):
    return problems(name, node, ast.get_docstring(node))
  found = [] if ast.get_docstring(node) else [f"{name}: no docstring"]
  for method in node.body:
    if not isinstance(method, ast.FunctionDef):
      continue
    if method.name == "__init__" and ast.get_docstring(node) and name not in ("Model", "Context"):
      found += problems(name, method, ast.get_docstring(node))
    elif method.name == "__call__" or not method.name.startswith("_"):
      found += problems(f"{name}.{method.name}", method, ast.get_docstring(method))
  return found


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_name_is_documented(module):
  names = list(public_names(module))
  assert len(names) >= 2
  assert [problem for name, node in names for problem in undocumented(name, node)] == []
