"""Workflows, forms and scripts of the repository: they cannot run here, so they are checked."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmake"))

import check_commits  # noqa: E402
import release  # noqa: E402

yaml = pytest.importorskip("yaml", reason="no PyYAML: ./dev setup installs it")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted(p for p in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml") if p.stem != "config")


def check_schema(name: str, *files: Path) -> None:
  done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", name,
                         *files], capture_output=True, text=True)
  assert done.returncode == 0, done.stdout + done.stderr


def steps(workflow: Path):
  """Job name and step, of every step of a workflow."""
  for name, job in yaml.safe_load(workflow.read_text())["jobs"].items():
    for step in job["steps"]:
      yield name, step


def test_files_for_github_follow_their_schemas():
  check_schema("vendor.github-workflows", *WORKFLOWS)
  check_schema("vendor.github-issue-forms", *FORMS)
  check_schema("vendor.github-issue-config", ROOT / ".github/ISSUE_TEMPLATE/config.yml")
  check_schema("vendor.dependabot", ROOT / ".github/dependabot.yml")


def shellcheck(script: Path) -> str:
  """What it finds; nothing for a sound script."""
  return subprocess.run([Path(sys.executable).with_name("shellcheck"), script],
                        capture_output=True, text=True).stdout


@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_shell_scripts_are_sound(script):
  assert shellcheck(ROOT / script) == ""


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_of_workflows_are_sound(workflow, tmp_path):
  seen = 0
  for job, step in steps(workflow):
    if "run" not in step:
      continue
    seen += 1
    assert "${{" not in step["run"], f"{job}: pass expressions through env, not into the script"
    script = tmp_path / "step.sh"
    script.write_text("#!/usr/bin/env bash\n" + step["run"])
    assert shellcheck(script) == "", job
    for verb in re.findall(r"\./dev (\w+)", step["run"]):
      assert re.search(rf"^\./dev {verb}\b", (ROOT / "dev").read_text(), re.M), \
          f"{job}: ./dev has no verb {verb}"
    for file in re.findall(r"python3 (\S+\.py)", step["run"]):
      assert (ROOT / file).exists(), f"{job}: no file {file}"
  assert seen


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_every_job_ends_by_itself_and_asks_for_few_rights(workflow):
  document = yaml.safe_load(workflow.read_text())
  assert document["permissions"] == {"contents": "read"}
  assert all(job["timeout-minutes"] <= 120 for job in document["jobs"].values())
  for _, step in steps(workflow):
    assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"])


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_checkouts_keep_no_credentials_and_containers_trust_them(workflow):
  """In a container the checkout belongs to another user, and `git ls-files` of ./dev refuses it."""
  for name, job in yaml.safe_load(workflow.read_text())["jobs"].items():
    for step in job["steps"]:
      if step.get("uses", "").startswith("actions/checkout@"):
        assert step["with"]["persist-credentials"] is False, name
    if "container" in job:
      assert any("safe.directory" in step.get("run", "") for step in job["steps"]), name


def test_hooks_name_files_that_are_there():
  hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
  local = [hook for repo in hooks["repos"] if repo["repo"] == "local" for hook in repo["hooks"]]
  assert local
  for hook in local:
    assert (ROOT / hook["entry"].split()[1]).exists(), hook["entry"]
  pinned = re.search(r"^ruff==(\S+)", (ROOT / "cmake/test-packages.txt").read_text(), re.M)[1]
  assert f"rev: v{pinned}" in (ROOT / ".pre-commit-config.yaml").read_text()


@pytest.mark.parametrize("subject, problem", [
  ("comm: name the rank that died", None),
  ("python, cli: keep one default", None),
  ("docs: " + "x" * 67, "73 characters"),
  ("Say what was measured", "expected `area:"),
  ("comm: names the rank", "imperative"),
  ("comm: added a rank", "imperative"),
  ("comm: compress gradients", None),
  ("comm: name the rank.", "full stop"),
])
def test_commit_subjects(subject, problem):
  found = check_commits.problems(subject)
  assert not found if problem is None else any(problem in text for text in found)


def test_commits_since_the_rule_began_follow_it():
  if not (ROOT / ".git").exists():
    pytest.skip("no Git history here")
  done = subprocess.run([sys.executable, ROOT / "cmake/check_commits.py"], capture_output=True,
                        text=True)
  assert done.returncode == 0, done.stdout


CMAKE = "project(stretto VERSION 1.2.3 LANGUAGES CXX)"
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n### Fixed\n- A hang.\n"


def test_release_accepts_a_tag_that_agrees():
  assert release.problems("v1.2.3", CMAKE, CHANGELOG) == []
  assert release.sections(CHANGELOG)["1.2.3"] == ("2026-01-31", "### Fixed\n- A hang.")


@pytest.mark.parametrize("tag, changelog, problem", [
  ("v1.2.4", CHANGELOG, "CMakeLists.txt has version 1.2.3"),
  ("v1.2.3", CHANGELOG.replace("1.2.3", "1.2.2"), "no section"),
  ("v1.2.3", CHANGELOG.replace(" - 2026-01-31", ""), "needs a date"),
  ("v1.2.3", CHANGELOG.replace("### Fixed\n- A hang.\n", ""), "is empty"),
  ("v1.2.3", CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n- Left.\n"), "still has entries"),
])
def test_release_refuses(tag, changelog, problem):
  assert any(problem in text for text in release.problems(tag, CMAKE, changelog))


def git(folder: Path, *words: str) -> str:
  identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
  return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True,
                        text=True).stdout


def test_release_makes_a_tag_with_the_notes(tmp_path, monkeypatch, capfd):
  (tmp_path / "CMakeLists.txt").write_text(CMAKE)
  (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
  git(tmp_path, "init", "-q")
  for name, value in (("user.name", "Test"), ("user.email", "test@example.org")):
    git(tmp_path, "config", name, value)
  monkeypatch.setattr(release, "ROOT", tmp_path)
  assert release.main(["tag"]) == 1, "files that are not committed"
  assert "commit them first" in capfd.readouterr().out
  git(tmp_path, "add", ".")
  git(tmp_path, "commit", "-q", "-m", "build: release 1.2.3")
  assert release.main(["tag"]) == 0
  assert git(tmp_path, "tag", "-l", "--format=%(contents)").strip() == \
      "Stretto 1.2.3\n\n### Fixed\n- A hang."
  assert release.main(["notes", "v1.2.3"]) == 0
  assert capfd.readouterr().out == "### Fixed\n- A hang.\n"


def test_changelog_has_an_unreleased_section_or_the_current_version():
  known = release.sections((ROOT / "CHANGELOG.md").read_text())
  assert known.get("Unreleased", ("", ""))[1] or \
      release.version_of((ROOT / "CMakeLists.txt").read_text()) in known


def test_extras_installed_packages_that_nothing_imports():
  text = (ROOT / "pyproject.toml").read_text()
  table = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
  extras = {name: re.findall(r'"([\w-]+)', packages)
            for name, packages in re.findall(r"^(\w+) = \[(.*)\]$", table, re.M)}
  assert set(extras) == {"torch", "peers", "migrate", "data", "cluster", "remote", "all"}
  sources = "\n".join(path.read_text() for path in (ROOT / "python/stretto").rglob("*.py"))
  for extra, packages in extras.items():
    for package in set(packages) - {"stretto"}:
      used = rf"import {package}\b|import_module\(\"{package}\b|^PACKAGES = .*\"{package}\""
      assert re.search(used, sources, re.M | re.I), f"{extra}: nothing uses {package}"
