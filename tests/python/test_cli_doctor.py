"""`stretto doctor`: what it shows of this computer, and what it finds wrong."""

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest


@pytest.fixture
def doctor(stretto_program, tmp_path):
  """Runs it with changes to the environment; the cache is an empty folder unless they say."""
  def run(*words, code=0, **changes):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STRETTO_")}
    environment |= {"STRETTO_PYTHON": sys.executable, "STRETTO_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run([stretto_program, "doctor", *words], capture_output=True, text=True,
                          env=environment | changes, timeout=120)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout) if "--json" in words else done.stdout

  return run


def findings(result, check):
  return [f for f in result["findings"] if f["check"] == check]


def test_it_shows_this_computer(doctor):
  result = doctor("--json")
  assert 1 <= result["cores"]["threads"] <= result["cores"]["logical"] <= os.cpu_count()
  assert result["processor"]["isa"] in ("portable", "avx2", "avx512", "neon")
  assert 1e8 < result["processor"]["peak_flops_per_s"][result["processor"]["isa"]] < 1e13
  memory = next(line for line in Path("/proc/meminfo").read_text().splitlines()
                if line.startswith("MemTotal"))
  assert result["memory"]["bytes"] == int(memory.split()[1]) * 1024
  rate = result["memory"]["read_bytes_per_s"]
  assert 1e8 < rate["one_core"] <= rate["together"] < 1e13
  names = {p.name for p in Path("/sys/class/net").iterdir()} - {"lo"}
  assert {i["name"] for i in result["network"]["interfaces"]} == names
  packages = {p["name"]: p["version"] for p in result["python"]["packages"]}
  assert packages["numpy"] == metadata.version("numpy")
  assert {"torch", "jax", "tensorflow", "onnxruntime", "openvino"} <= set(packages)
  assert result["tuning_cache"]["exists"] is False
  shown = doctor()
  for title in ("processor", "cores", "caches", "memory", "network", "packages", "tuning cache"):
    assert f"\n{title} " in shown


def test_every_finding_has_a_fix(doctor):
  result = doctor("--json", STRETTO_STREAM="4", STRETTO_ISA="portable")
  assert result["findings"] and all(f["problem"] and f["fix"] for f in result["findings"])


def test_a_misspelt_variable_is_found(doctor):
  [finding] = findings(doctor("--json", STRETTO_STREAM="4"), "environment")
  assert "STRETTO_STREAM" in finding["problem"]
  assert finding["fix"] == "did you mean STRETTO_STREAMS?"
  assert findings(doctor("--json", STRETTO_STREAMS="4"), "environment") == []


def test_a_wrong_value_stops_work(doctor):
  [finding] = findings(doctor("--json", code=1, STRETTO_STREAMS="many"), "environment")
  assert finding["stops_work"] and "STRETTO_STREAMS" in finding["problem"]
  assert "avx2" in doctor(code=1, STRETTO_ISA="mmx")


def test_a_capped_instruction_set_is_found(doctor):
  result = doctor("--json", STRETTO_ISA="portable")
  if result["processor"]["isa"] != "portable":
    [finding] = findings(result, "instruction-set")
    assert "STRETTO_ISA" in finding["problem"] and not finding["stops_work"]
  assert result["environment"]["STRETTO_ISA"] == "portable"


def test_a_damaged_tuning_cache_is_found(doctor, tmp_path):
  path = tmp_path / "cache.tsv"
  path.write_text("neither a header nor an entry\n")
  [finding] = findings(doctor("--json", STRETTO_TUNING_CACHE=str(path)), "tuning-cache")
  assert str(path) in finding["fix"]
  assert path.read_text().startswith("neither"), "looking changes nothing"


def test_a_secret_is_not_shown(doctor):
  assert "hush-hush" not in doctor(STRETTO_SECRET="hush-hush")
  assert doctor("--json", STRETTO_SECRET="hush-hush")["environment"]["STRETTO_SECRET"] == "(set)"


def test_a_python_without_stretto_is_found(doctor, tmp_path):
  result = doctor("--json", STRETTO_PYTHON=str(tmp_path / "no-python"))
  [finding] = findings(result, "python")
  assert "STRETTO_PYTHON" in finding["fix"] and result["python"]["packages"] == []
