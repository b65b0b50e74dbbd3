"""What the communication bench computes from its measurements, and that it runs without root."""

import importlib.util
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.comm import (  # noqa: E402
  cases,
  elastic,
  gains,
  gains_engines,
  gains_page,
  network,
  peers,
  results_page,
  rounds,
  tables,
  training,
)


def case(placement, size=1 << 20, operations=2):
  return cases.Case("c", network.Network(max(placement) + 1), placement,
                    cases.Work("each", size, operations), ("gloo", "stretto"))


@pytest.mark.parametrize("placement, factor", [
    ((0, 1), 1.0), ((0, 0, 1, 1), 1.0), ((0, 1, 0, 1), 1.0), ((0, 1, 2, 3), 1.5), ((0, 0), 0.0)])
def test_the_bound_counts_hosts_not_ranks(placement, factor):
  assert case(placement).bound_bytes() == pytest.approx(factor * (1 << 20))


def test_a_broadcast_enters_every_host_once():
  def bound(*placement):
    return cases.Case("c", network.Network(max(placement) + 1), placement,
                      cases.Work("broadcast", 1 << 20), ("gloo",)).bound_bytes()

  assert (bound(0, 1), bound(0, 0, 1, 1, 2), bound(0, 0)) == (1 << 20, 1 << 20, 0)


def test_bus_bandwidth_counts_ranks():
  assert case((0, 0, 1, 1)).bus_mbit(1.0) == pytest.approx(1.5 * (1 << 20) * 8 / 1e6)


def test_cases_name_known_peers_and_places():
  names = [c.name for group in cases.GROUPS for c in group.cases]
  assert len(set(names)) == len(names)
  for group in cases.GROUPS:
    for c in group.cases:
      assert set(c.placement) == set(range(c.network.hosts))
      for name in c.peers:
        peers.find(rounds.base(name))
  with pytest.raises(ValueError, match="no case 'huge'.*small"):
    cases.select("huge")
  assert len(cases.select("small,4 B")) == len(cases.select("small"))


def reply(seconds, sent, received=0):
  return {"seconds": seconds, "cpu_s": 0.5, "correct": True,
          "moved": {"lo": [9, 9], "eth0": [received, sent], "eth1": [0, 100]}}


def test_summary_takes_the_slowest_rank_and_the_busiest_card():
  turns = [[reply(1.0, 100), reply(3.0, 300)], [reply(2.0, 200), reply(1.0, 100)],
           [reply(9.0, 200), reply(1.0, 100, 900)]]
  result = rounds.summary(case((0, 1)), turns)
  assert result["median_s"] == 1.5 and result["min_s"] == 1.0 and result["max_s"] == 4.5
  # Two operations a turn, all cards but `lo`: 400 / 2, 300 / 2 and, received, 900 / 2.
  assert result["wire_bytes"] == 200 and result["cpu_s"] == 0.5
  assert result["seconds"] == [1.5, 1.0, 4.5]


def results():
  base = {"case": "16 MB", "ranks": 2, "kind": "each", "bytes": 1 << 24, "version": "1",
          "min_s": 0.1, "max_s": 1.0, "spread": 0.1, "cpu_s": 0.1, "bus_mbit": 900.0,
          "wire_bytes": 1.05 * (1 << 24), "bound_bytes": 1 << 24, "status": "ok"}
  return [base | {"peer": "gloo", "median_s": 0.3}, base | {"peer": "stretto", "median_s": 0.1},
          {"case": "16 MB", "peer": "openmpi", "kind": "each", "bytes": 1 << 24,
           "status": "failed", "reason": "rank 1: no answer in time"}]


def test_tables_show_ratios_bounds_and_reasons():
  text = tables.comparison(results())
  assert "3.00x" in text and "1.050" in text and "failed: rank 1: no answer in time" in text
  assert tables.ratio(results(), "gloo") == pytest.approx(3.0)
  assert tables.ratio(results(), "openmpi") is None


def test_results_page_section():
  report = {"results": results(), "date": "2026-11-22T01:00:00", "loopback": False,
            "congestion_control": "reno", "machine": {"cpu": "CPU", "cores": 2},
            "command": "python -m bench.comm all --json build/x.json"}
  again = report | {"command": "python -m bench.comm large", "results": [
      r | {"median_s": 0.2} for r in results() if r["peer"] == "stretto"]}
  text = results_page.section(results_page.joined([report]))
  assert "| 16 MB | 100 ms | 300 ms | 3.00 |  |" in text
  assert "build/x.json" not in text and "`python -m bench.comm all`" in text
  text = results_page.section(results_page.joined([report, again]))
  assert "| 16 MB | 200 ms | 300 ms | 1.50 |  |" in text
  assert "`python -m bench.comm all`, `python -m bench.comm large`" in text
  assert "Processor time" not in text
  unshaped = report | {"results": [r | {"case": "64 MB unshaped"} for r in results()]}
  assert "for 64 MB unshaped: stretto 100 ms, gloo 100 ms." in results_page.section(
      results_page.joined([unshaped]))


def test_the_best_of_equal_settings_is_not_better_than_them():
  random = np.random.default_rng(3)
  times = {name: list(1 + 0.2 * random.random(20)) for name in ("a", "b", "c", "d", "tuned")}
  medians = {name: np.median(seconds) for name, seconds in times.items()}
  lucky = min(medians[name] for name in "abcd") / medians["tuned"]
  fair = [gains.gain_over_best({name: list(1 + 0.2 * random.random(20)) for name in times},
                               "abcd", "tuned") for _ in range(200)]
  assert lucky < 0.99 and np.mean(fair) == pytest.approx(1, abs=0.01)
  times["c"] = [0.5 * seconds for seconds in times["c"]]
  assert gains.gain_over_best(times, "abcd", "tuned") == pytest.approx(0.5, rel=0.1)
  assert gains.gain_over_best({"a": [2.0], "tuned": [1.0]}, "a", "tuned") == 2


def test_gains_name_known_engines():
  rows = [row for group in ("horovod", "sizes") for row in gains.GROUPS[group]]
  names = [row.name for gained in gains.GROUPS.values() for row in gained]
  assert len(set(names)) == len(names) and "," not in "".join(names)
  for row in rows:
    together = rounds.together([row.ours, *row.theirs, *row.shown])
    disturbs = any(peers.find(name).on_request for name in (row.ours, *row.theirs))
    assert len(together) == (len(row.theirs) + len(row.shown) + 1 if disturbs else 1)
  assert [row.name for row in gains.select("16 MB on loopback")] == [
      "16 MB on loopback against Gloo", "16 MB on loopback against Open MPI"]


@pytest.mark.parametrize("theirs, reached, kept", [
    ([2.0, 3.0], 2.0, True), ([1.9, 1.9], 1.9, False), ([9.0, 1.5], 1.5, False)])
def test_a_gain_over_engines_is_that_over_the_fastest(theirs, reached, kept):
  row = gains_engines.Against("r", "at least 2 times", case((0, 1)), "stretto",
                              ("gloo", "gloo-tuned"), 2.0, shown=("openmpi",))
  times = dict(zip(("stretto", *row.theirs, "openmpi"), (1.0, *theirs, 0.1)))
  ran = {name: {"status": "ok", "seconds": [t] * 4, "median_s": t, "version": "1"}
         for name, t in times.items()}
  got = gains_engines.outcome(row, ran)
  assert got["reached"] == pytest.approx(reached) and got["kept"] == kept
  assert got["median_s"] == times
  assert "reached" in gains.text({"gain": "r", "promise": "p", **got, "kept": True})
  absent = {"status": "skipped", "reason": "no mpirun"}
  without = gains_engines.outcome(row, ran | {"openmpi": absent})
  assert without["status"] == "ok" and "openmpi" not in without["median_s"]
  assert gains_engines.outcome(row, ran | {"gloo-tuned": absent}) == {
      "status": "skipped", "reason": "gloo-tuned: no mpirun"}


def gains_report(cpu, name, reached, **more):
  return {"date": "2026-11-25T01:00:00", "machine": {"cpu": cpu, "cores": 2, **more},
          "command": f"python -m bench.comm.gains {name} --json build/x.json",
          "rows": [{"gain": name, "promise": "p", "status": "ok", "reached": reached,
                    "kept": reached > 1, "median_s": {"with": 1.0, "without": reached},
                    "loss": {}, "versions": {"gloo": "torch 2", "stretto": "1"}}]}


def test_the_page_of_gains_keeps_tables_of_other_machines():
  epyc = gains_report("EPYC", "a", 1.5)
  xeon = [gains_report("Xeon", name, 0.9, family_model="6/207") for name in ("a", "b")]
  page = gains_page.written(gains_page.written("", [epyc]), xeon)
  assert list(gains_page.tables_of(page)) == ["EPYC, 2 cores",
                                              "Intel Xeon (Emerald Rapids), 2 cores"]
  assert "| a | p | 1.50 | yes | with 1.00 s, without 1.50 s |" in page
  assert page.count("| no |") == 2 and "x.json" not in page
  assert "; gloo torch 2. `python -m bench.comm.gains a`, `python -m bench.comm.gains b`." in page
  assert gains_page.written(page, xeon) == page
  # A row that is measured by itself joins those of its machine.
  more = gains_page.written(page, [gains_report("EPYC", "c", 2.0)])
  table = gains_page.tables_of(more)["EPYC, 2 cores"]
  assert "| a | p | 1.50 |" in table and "| c | p | 2.00 |" in table and table.count("promise") == 1
  assert "gains a`." in table and "gains c`." in table
  assert gains_page.tables_of(more).keys() == gains_page.tables_of(page).keys()
  published = gains_page.PAGE.read_text()
  assert gains_page.written(published, []) == published, "run: python -m bench.comm.gains_page"


def test_larger_batches_have_a_learning_rate_that_rises(monkeypatch):
  pytest.importorskip("torch", reason="the trainer needs torch")
  pytest.importorskip("sklearn", reason="the trainer needs the digits of scikit-learn")

  class Driver:
    def wrap(self, model, wire):
      del wire
      return model

  def rates(steps):
    trainer = training.Trainer(Driver(), "digits", "", 0, 1)
    found = []
    for _ in range(steps):
      found.append(trainer._optimizer.param_groups[0]["lr"])
      trainer.run(1)
    return found

  assert rates(2) == [training.LEARNING_RATE] * 2
  monkeypatch.setenv("STRETTO_BENCH_RATE_FACTOR", "4")
  risen = rates(training.RATE_WARM_UP)
  assert training.LEARNING_RATE < risen[0] < 0.3 * risen[-1]
  assert risen == sorted(risen)
  assert risen[-1] == pytest.approx(4 * training.LEARNING_RATE)


def elastic_curve(sizes, shift=0.0):
  return [{"step": i, "loss": 2.0 - 0.1 * i + shift, "ranks": n} for i, n in enumerate(sizes)]


def test_the_picture_of_an_elastic_job_marks_where_ranks_change():
  curve, still = elastic_curve([3] * 5 + [2] * 4 + [3] * 3, 1e-6), elastic_curve([3] * 12)
  assert elastic.spans(curve) == [(3, 0, 4), (2, 5, 8), (3, 9, 11)]
  picture = elastic.picture(still, curve, 0.25)
  ElementTree.fromstring(picture)
  assert picture.count("stroke-dasharray") == 2 and picture.count("<polyline") == 4
  assert "2 ranks go on after 0.25 s" in picture and "a new rank joins" in picture
  assert "by at most 1e-6" in picture
  published = (elastic.IMAGES / "elastic.svg").read_text()
  ElementTree.fromstring(published)
  assert published.count("stroke-dasharray") == 2


def test_peers_that_disturb_others_run_on_request_only():
  reduce, train = cases.select("4 B on 2 hosts,DDP convnet on digits unshaped")
  assert "horovod" not in rounds.names(reduce, None)
  assert rounds.names(reduce, ["horovod", "stretto"]) == ["stretto", "horovod"]
  assert rounds.names(train, ["horovod", "gloo"]) == ["gloo"]
  assert rounds.together(["horovod", "gloo", "stretto"]) == [["gloo", "stretto"], ["horovod"]]
  assert rounds.together(["gloo"]) == [["gloo"]] and rounds.together(["horovod"]) == [["horovod"]]


def test_hosts_that_cannot_be_made_do_not_end_the_run(monkeypatch):
  def cannot(*_):
    raise RuntimeError("ip link add: no such device")

  monkeypatch.setattr(rounds, "unavailable", lambda _: "")
  monkeypatch.setattr(rounds.Hosts, "build", cannot)
  chosen = cases.select("4 B on 2 hosts,16 MB on 2 hosts")
  results_of_cases = list(rounds.run(chosen, None, 1, False, lambda _: None))
  assert len(results_of_cases) == len(chosen)
  for found in results_of_cases:
    assert {r["status"] for r in found} == {"failed"}
    assert {r["reason"] for r in found} == {"ip link add: no such device"}


def test_resnet50_has_its_parameters():
  shapes = training.resnet50_shapes()
  count = 0
  for shape in shapes:
    size = 1
    for n in shape:
      size *= n
    count += size
  assert len(shapes) == 161 and count == 25_557_032


def bench(*words):
  return subprocess.run([sys.executable, "-m", "bench.comm", *words], cwd=ROOT, timeout=400,
                        capture_output=True, text=True)


def test_list_and_bad_words():
  listed = bench("--list")
  assert listed.returncode == 0 and "gloo-tuned" in listed.stdout and "training" in listed.stdout
  wrong = bench("nothing-like-it")
  assert wrong.returncode == 2 and "no case 'nothing-like-it'" in wrong.stderr


def test_gains_over_engines_are_measured(tmp_path):
  pytest.importorskip("torch", reason="Gloo comes with torch")
  file = tmp_path / "r.json"
  words = ["1 MB on loopback against Gloo", "--rounds", "2", "--json", str(file)]
  done = bench("gains", *words)
  report = json.loads(file.read_text())
  [row] = report["rows"]
  assert row["status"] == "ok", row
  assert done.returncode == (0 if row["kept"] else 1), done.stderr
  assert set(row["median_s"]) == {"stretto", "gloo", "gloo-tuned"} and row["reached"] > 0
  assert report["command"].startswith("python -m bench.comm.gains '1 MB on loopback against Gloo' ")


def test_absent_peers_are_skipped_with_the_reason(tmp_path):
  if importlib.util.find_spec("mpi4py"):
    pytest.skip("mpi4py is installed here")
  file = tmp_path / "r.json"
  done = bench("4 B on 2 hosts", "--peers", "openmpi", "--loopback", "--json", str(file))
  assert done.returncode == 0, done.stderr
  result = json.loads(file.read_text())["results"][0]
  assert result["status"] in ("skipped", "failed") and result["reason"]


def test_gloo_on_the_loopback_device(tmp_path):
  pytest.importorskip("torch", reason="Gloo comes with torch")
  file = tmp_path / "r.json"
  done = bench("4 B on 2 hosts", "--peers", "gloo", "--loopback", "--rounds", "2", "--json",
               str(file))
  assert done.returncode == 0, done.stderr
  assert "loopback" in done.stdout
  result = json.loads(file.read_text())["results"][0]
  assert result["status"] == "ok", result
  assert result["median_s"] > 0 and len(result["seconds"]) == 2
