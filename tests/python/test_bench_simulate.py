"""What `python -m bench.comm simulate` prints and writes, on small jobs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.comm import simulate, simulate_page  # noqa: E402

_stretto = pytest.importorskip("stretto._stretto")
if not hasattr(_stretto, "comm_simulate"):
  pytest.skip("built without the gradient engine", allow_module_level=True)


def run(*words: str) -> subprocess.CompletedProcess:
  return subprocess.run([sys.executable, "-m", "bench.comm", "simulate", *words], cwd=ROOT,
                        timeout=400, capture_output=True, text=True, check=False)


def test_a_terminal_shows_what_takes_long(monkeypatch, capsys):
  monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
  assert simulate.main(["--ranks", "8", "--sizes", "4K", "--names", "20", "--step", "4M"]) == 0
  shown = capsys.readouterr().err.split("\r\033[K")
  assert "8 ranks play all_reduce of 4 KB ..." in shown
  assert "8 ranks play all_reduce of 4 KB direct ..." in shown
  assert "8 ranks negotiate 20 names ..." in shown
  assert "8 ranks tune a step of 4 MB ..." in shown
  assert shown[-1] == "", "the last line is wiped"


def test_a_report_has_all_parts_and_a_page(tmp_path):
  out, page = tmp_path / "a.json", tmp_path / "a.html"
  done = run("--ranks", "8,80", "--ranks-per-host", "2", "--sizes", "4,64K,8M", "--names", "20",
             "--step", "4M", "--json", str(out), "--html", str(page))
  assert done.returncode == 0, done.stderr
  report = json.loads(out.read_text())
  operations = report["operations"]
  for ranks in (8, 80):
    for size in (4, 65536, 8 << 20):
      mine = [r for r in operations if (r["ranks"], r["bytes"]) == (ranks, size)]
      assert [r["chosen"] for r in mine] == [True] + [False] * (len(mine) - 1)
      assert len({r["algorithm"] for r in mine}) == len(mine) > 3
      # 40 hosts add in a tree, 4 do not.
      assert ("tree_halving" in {r["algorithm"] for r in mine}) == (ranks == 80)
      # The cost model chooses: it may be wrong, but not by much.
      assert mine[0]["seconds"] < 1.5 * min(r["seconds"] for r in mine)
  assert all(r["seconds"] >= r["bound_s"] for r in operations)
  large = next(r for r in operations if r["ranks"] == 80 and r["bytes"] == 8 << 20
               and r["algorithm"] == "tree_halving")
  assert large["card_bytes"] == pytest.approx(2 * (1 - 1 / 64) * (8 << 20))
  assert [n["ranks"] for n in report["negotiation"]] == [8, 80]
  assert [r["agreed"] for r in report["negotiation"][1]["rounds"]] == [0, 20, 20]
  for tuned in report["tuning"]:
    assert tuned["fastest_s"] <= tuned["best_s"] <= tuned["start_s"]
  html = page.read_text()
  assert html.count("<svg") == 2 * 3 and "http" not in re.sub(r"http://www\.w3\.org\S*", "", html)
  assert simulate_page.page(report) == html


def test_wrong_words_are_refused():
  done = run("--ranks", "eight")
  assert done.returncode == 2 and "eight" in done.stderr
  done = run("--kind", "all_reduce,dance")
  assert done.returncode == 2 and "dance" in done.stderr and "all_gather" in done.stderr
  done = run("--link", "string")
  assert done.returncode == 2 and "1gbit" in done.stderr


def test_sizes_are_read_and_shown():
  assert [simulate.bytes_of(s) for s in ("4", "64K", "16M", "1G")] == [4, 65536, 16 << 20, 1 << 30]
  assert simulate_page.size_text(65536) == "64 KB"
  assert simulate_page.size_text(1008 << 10) == "1008 KB"


def test_other_collectives_are_played():
  args = simulate.arguments(["--ranks", "16", "--kind", "all_gather", "--sizes", "1M"])
  rows = list(simulate.operations(args, 16))
  assert {r["algorithm"] for r in rows} == {"direct", "hierarchical", "ring", "recursive_doubling"}
  for r in rows:
    assert r["card_bytes"] >= r["bound_bytes"] > 0


def test_all_kinds_are_played_and_shown(tmp_path):
  out, page = tmp_path / "a.json", tmp_path / "a.html"
  done = run("--ranks", "120", "--ranks-per-host", "1", "--kind", "all", "--sizes", "64K",
             "--names", "0", "--step", "0", "--json", str(out), "--html", str(page))
  assert done.returncode == 0, done.stderr
  report = json.loads(out.read_text())
  chosen = {r["kind"]: r for r in report["operations"] if r["chosen"]}
  assert set(chosen) == set(simulate.ALGORITHMS)
  assert chosen["reduce_scatter"]["algorithm"] == "tree_halving"
  assert chosen["reduce_scatter"]["rank_messages"] <= 2 * 7
  for r in report["operations"]:
    assert r["seconds"] >= r["bound_s"] > 0 and r["card_bytes"] >= r["bound_bytes"] > 0
  assert page.read_text().count("<svg") == 3 * len(chosen)
  section = simulate_page.section(report)
  for kind in simulate.ALGORITHMS:
    assert kind in section


def test_a_bad_request_raises_and_names_what_is_wrong():
  with pytest.raises(ValueError, match="dance"):
    _stretto.comm_simulate('{"ranks": 4, "what": "dance"}')
