"""The documentation: its code runs, its links lead somewhere, the site has every page."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))

import command  # noqa: E402
import cxx  # noqa: E402
import operators  # noqa: E402
import pages  # noqa: E402

CODE = [ROOT / "README.md", ROOT / "docs/start.md", *sorted((ROOT / "docs/tutorials").glob("*.md"))]
TEXTS = sorted({*pages.pages(), ROOT / "README.md", ROOT / "examples/README.md"})
# Dimensions of the model that the README takes as given.
IMAGE = (1, 3, 224, 224)


def python_blocks(page: Path) -> list[str]:
  return re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)


def file_of(block: str) -> str | None:
  """A block that begins with `# name.py` is a file; others run as they stand, one after another."""
  match = re.match(r"# (\w+\.py)\n", block)
  return match and match[1]


def lacks(code: str) -> list[str]:
  modules = re.findall(r"^(?:import|from) (\w+)", code, re.M)
  return [name for name in dict.fromkeys(modules) if importlib.util.find_spec(name) is None]


def run(*words: str, cwd: Path) -> str:
  environment = {**os.environ, "STRETTO_CACHE_DIR": str(cwd / "cache")}
  done = subprocess.run([sys.executable, *words], cwd=cwd, capture_output=True, text=True,
                        timeout=300, env=environment)
  assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
  return done.stdout


def write_small_resnet(path: Path) -> None:
  """What the README's example reads: the same inputs, a thousandth of the arithmetic."""
  import numpy as np
  import onnx
  from onnx import TensorProto, helper, numpy_helper

  weight = np.full((4, 3, 7, 7), 0.01, np.float32)
  graph = helper.make_graph(
    [helper.make_node("Conv", ["image", "w"], ["c"], strides=[4, 4]),
     helper.make_node("GlobalAveragePool", ["c"], ["logits"])], "g",
    [helper.make_tensor_value_info("image", TensorProto.FLOAT, IMAGE)],
    [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 4, 1, 1])],
    [numpy_helper.from_array(weight, "w")])
  onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9),
            path)


@pytest.mark.parametrize("page", CODE, ids=lambda page: page.stem)
def test_code_on_the_page_runs(page, tmp_path):
  blocks = python_blocks(page)
  assert blocks
  missing = lacks("\n".join(blocks))
  if missing:
    pytest.skip(f"not installed: {', '.join(missing)}")
  write_small_resnet(tmp_path / "resnet50.onnx")
  inline = "\n".join(block for block in blocks if not file_of(block))
  if inline:
    run("-c", inline, cwd=tmp_path)
  for block in blocks:
    name = file_of(block)
    if name:
      (tmp_path / name).write_text(block)
      assert f"stretto run -n 2 {name}" in page.read_text(), "the page says how to start the file"
      assert run("-m", "stretto", "run", "-n", "2", name, cwd=tmp_path).strip()


def test_the_site_begins_with_the_code_of_the_readme():
  assert python_blocks(ROOT / "docs/index.md") == python_blocks(ROOT / "README.md")[:1]


@pytest.mark.parametrize("page", [p for p in TEXTS if p.suffix == ".md"],
                         ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
  assert pages.broken_links(page) == []


def test_files_that_pages_name_are_in_the_tree():
  tree = {f"/{path.relative_to(ROOT).as_posix()}" for folder in
          ("src", "python", "tests", "cli", "bench", "cmake", "docs", "examples")
          for path in (ROOT / folder).rglob("*") if path.is_file()}
  made_by_the_reader = {"train.py", "validate.py", "train_hvd.py", "average.py",
                        "pytorch_mnist.py", "name.py",
                        "pytorch_synthetic_benchmark.py", "tensorflow2_synthetic_benchmark.py"}
  for page in (page for page in TEXTS if page.suffix == ".md"):
    text = page.read_text()
    units = [f"{name}.cc" for name in re.findall(r"`(\w+_(?:test|fuzz))`", text)]
    for name in units + re.findall(r"`([\w./-]+\.(?:h|cc|c|py))`", text):
      if name.split("/")[-1] in made_by_the_reader or name.startswith(("x_", "name_of_pass")):
        continue
      assert any(path.endswith(f"/{name}") for path in tree), f"{page.name}: no file {name}"


def test_errors_that_troubleshooting_quotes_are_raised_somewhere():
  """Between the names and numbers of a quoted error its words stand in the sources as they are."""
  sources = [*(ROOT / "src").rglob("*.cc"), *(ROOT / "python").rglob("*.py"),
             *(ROOT / "cmake").glob("*.cmake")]
  text = re.sub(r'"\s*"', "", "\n".join(path.read_text() for path in sources))
  quotes = re.findall(r"^\*\*`(.+?)`\*\*$",
                      (ROOT / "docs/troubleshooting.md").read_text(), re.M)
  assert len(quotes) >= 6
  for quote in quotes:
    words = max(re.split(r"[.:]{2,}|: |\d+(?:, \d+)*|\bx\b|float32|int64|m\.onnx", quote), key=len)
    assert words.strip() in text, f"{quote}: nothing raises {words.strip()!r}"


@pytest.mark.parametrize("page", [p for p in TEXTS if p.suffix == ".md"],
                         ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_elsewhere_are_well_formed(page):
  """They cannot be followed here."""
  for target in filter(pages.is_external, pages.links(page.read_text())):
    assert re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w./#%?=&+-]*)?", target), target


def test_the_site_shows_every_page():
  yaml = pytest.importorskip("yaml", reason="no PyYAML: ./dev setup installs it")
  site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())

  def files(entry):
    if isinstance(entry, str):
      return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [file for child in children for file in files(child)]

  shown = set(files(site["nav"]))
  there = {place for place in pages.pages().values() if place.endswith(".md")}
  assert {place for place in shown if not place.startswith("reference/")} == there
  # It would make bench/README.md the page of a section and take its own entry away.
  assert "navigation.indexes" not in site["theme"]["features"]


def test_the_readme_has_the_two_commands_of_a_clone():
  commands = re.findall(r"^    (\./dev \w+)", (ROOT / "README.md").read_text(), re.M)
  assert {"./dev demo", "./dev test"} <= set(commands)


def test_the_readme_counts_the_operators(run_command):
  counted = len(json.loads(run_command("operators", "--json").stdout)["operators"])
  assert f" {counted} operators;" in (ROOT / "README.md").read_text()


def test_addresses_of_the_project_agree():
  address = re.search(r"^repo_url: (\S+)", (ROOT / "mkdocs.yml").read_text(), re.M)[1]
  files = [ROOT / "pyproject.toml", *sorted((ROOT / ".github").rglob("*.yml"))]
  for file in files:
    for owner, name in re.findall(r"https://github\.com/([\w-]+)/(stretto)\b", file.read_text()):
      assert f"https://github.com/{owner}/{name}" == address, file.name


def test_links_of_pages_are_rewritten_for_the_site():
  places = {ROOT / "docs/start.md": "start.md", ROOT / "bench/README.md": "bench/README.md"}
  text = "[a](../bench/README.md#x) [b](../LICENSE) [c](https://x.y/z) [d](#e)\n```\n[f](g)\n```\n"
  assert pages.relinked(text, ROOT / "docs/start.md", places, "https://r") == (
    "[a](bench/README.md#x) [b](https://r/blob/main/LICENSE) [c](https://x.y/z) [d](#e)\n"
    "```\n[f](g)\n```\n")
  with pytest.raises(SystemExit, match="no file nowhere.md"):
    pages.relinked("[a](nowhere.md)", ROOT / "docs/start.md", places, "https://r")


def test_comments_of_headers_become_doxygen_s():
  text = "// What it is.\n//\n//   f(1);\n#pragma once\n// Adds.\nint f(int x);  // never 0\n"
  assert cxx.documented(text).splitlines() == [
    "/// \\file", "/// What it is.", "/// ", "/// \\verbatim", "///   f(1);", "/// \\endverbatim",
    "#pragma once", "///", "/// Adds.", "int f(int x);  ///< never 0"]
  assert "int x; /**< never 0 */" in cxx.documented("int x; /* never 0 */\n")


def test_pages_that_the_command_describes():
  option = {"names": ["-n", "--name"], "value": "a|b", "text": "Choose <one>", "group": "",
            "default": "a", "positional": False}
  verb = {"name": "stretto x", "summary": "Do it", "usage": "stretto x", "options": [option],
          "examples": ["stretto x -n b"], "commands": []}
  text = command.cli_page(verb | {"exit_codes": [{"code": 0, "meaning": "success"}]})
  assert "## stretto x" in text and "| 0 | success |" in text
  assert "| `-n, --name a|b` | Choose &lt;one> | `a` |" in text
  text = command.environment_page([{"name": "A", "group": "G", "meaning": "m", "default": ""}])
  assert "## G" in text
  assert "| variable | meaning |\n|---|---|\n| `A` | m |" in text, "no row has a default"


def test_the_page_of_the_package_shows_every_public_name():
  import stretto
  build = importlib.import_module("build")  # a statement would be sorted by whether build/ exists
  assert set(build.PYTHON["stretto"]) == set(stretto.__all__) - {"__version__"}


def test_operators_stand_beside_the_opsets_that_changed_them():
  port = {"name": "X", "dtypes": ["float32"], "arity": "optional"}
  relu = {"name": "Relu", "becomes": None, "limits": ["a limit"], "inputs": [port], "outputs": []}
  text = operators.page({"opsets": [7, 14], "operators": [relu]})
  assert "| 6, 13, 14 | `X?` | float32 | a limit |" in text
  assert "`LSTM`" in text and "`Relu`" not in text


def test_the_glossary_is_short_and_in_order():
  terms = re.findall(r"^\| \*\*(.+?)\*\*", (ROOT / "docs/glossary.md").read_text(), re.M)
  assert 0 < len(terms) <= 30
  assert terms == sorted(terms, key=str.lower)
