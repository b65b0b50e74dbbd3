"""./dev fuzz-models: a short run of it, and what it does with a defect."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from onnx import defs

pytest.importorskip("onnxruntime")
from differential import campaign, check, divergences, findings, grow, shrink  # noqa: E402
from differential.__main__ import report  # noqa: E402
from differential.draft import Draft, Unfit  # noqa: E402
from differential.tables import ROWS  # noqa: E402
from stretto import _stretto  # noqa: E402

SEED, COUNT = 7, 300  # about fifteen seconds

# Operators that no table has, with the reason.
# A drawn model has no strings.
STRINGS = "RegexFullMatch StringConcat StringNormalizer StringSplit".split()
# No two engines give the same numbers.
RANDOM = ("Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
          ).split()


def test_random_models_give_what_other_engines_give(tmp_path):
  summary = campaign.run(SEED, 0, COUNT, "", 2, tmp_path, lambda _: None)
  print(report(summary))
  assert not summary.findings, report(summary)
  assert sum(summary.kinds.values()) == COUNT
  # Most models have to say something.
  assert summary.kinds["same"] > 0.85 * COUNT, summary.kinds


def test_every_operator_is_drawn(capfd):
  _stretto.main(["operators", "--json"], sys.executable)
  listed = {row["name"] for row in json.loads(capfd.readouterr().out)["operators"]}
  # Those of other domains have tests of their own.
  known = {name for name in listed if defs.has(name)}
  drawn = {op for row in ROWS for op in row.ops}
  assert known - drawn == {*STRINGS, *RANDOM}
  assert all(defs.has(op, domain) for op in drawn for domain in [domain_of(op)])


def domain_of(op):
  for domain in ("", "ai.onnx.ml", "ai.onnx.preview.training"):
    if defs.has(op, domain):
      return domain
  raise AssertionError(f"onnx has no {op}")


def chain(*ops):
  """A model of operators in a row."""
  draft = Draft(np.random.default_rng(SEED), 17)
  value = draft.new(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4), False)
  for op in ops:
    (value,) = draft.add(op, [value])
  return draft, value


def test_a_wrong_result_is_found_made_small_and_run_again(tmp_path, monkeypatch):
  draft, last = chain("Neg", "Sigmoid", "Tanh", "Exp")
  real = check.run_stretto

  def wrong(content, feeds, settings):
    outputs = real(content, feeds, settings)
    return [array + np.float32(b"Tanh" in content) / 1000 for array in outputs]

  monkeypatch.setattr(check, "run_stretto", wrong)
  settings = check.Settings(threads=2)
  outcome = check.check_steps(draft, draft.steps, [last], settings)
  assert outcome.kind == "differs", outcome
  failure = shrink.shrink(draft, shrink.Failure(draft.steps, [last], (), settings, outcome))
  assert [step.op for step in failure.steps] == ["Tanh"] and failure.settings.threads == 1
  findings.write(tmp_path / "one", draft, failure, "./dev fuzz-models --seed 7")
  assert "differ by more than" in findings.replay(tmp_path / "one")
  monkeypatch.undo()
  assert findings.replay(tmp_path / "one") == ""


def test_an_error_and_a_refusal_are_told_apart(monkeypatch):
  draft, last = chain("Relu")

  def fails(error):
    def run(content, feeds, settings):
      raise error
    monkeypatch.setattr(check, "run_stretto", run)
    return check.check_steps(draft, draft.steps, [last], check.Settings())

  assert fails(check.UnsupportedError("no")).kind == "refused"
  assert fails(ValueError("no")).is_finding
  assert fails(AssertionError("the second run differs")).kind == "unstable"


def test_numbers_that_a_rounding_moves_are_no_findings():
  """1000.25 - 1000 keeps few of the digits of tanh; what is lost is no defect."""
  draft = Draft(np.random.default_rng(SEED), 17)
  x = draft.new(np.linspace(0.1, 1, 9, dtype=np.float32), False)
  (y,) = draft.add("Tanh", [x])
  big = draft.constant(5000.0, "float32")
  (y,) = draft.add("Sub", draft.add("Add", [y, big]) + [big])
  off = [y.array + np.float32(2.0**-12)]
  assert check.compare(draft.steps, [y], off, check.Settings()).kind == "same"
  assert check.compare(draft.steps, [y], [off[0] + 0.1], check.Settings()).kind == "differs"


def test_a_crash_is_a_finding_and_not_the_end(tmp_path, monkeypatch):
  script = ("import json, os, sys\n"
            "first, count = int(sys.argv[1]), int(sys.argv[2])\n"
            "for n in range(first, first + count):\n"
            "  print(json.dumps({'begin': n}), flush=True)\n"
            "  print(json.dumps({'phase': 'stretto'}), flush=True)\n"
            "  if n == 3: os._exit(11)\n"
            "  print(json.dumps({'number': n, 'kind': 'same', 'text': '', 'ops': {}, 'peers': {},"
            " 'unfit': []}), flush=True)\n")
  monkeypatch.setattr(campaign, "_command", lambda seed, first, count, only, folder: [
    sys.executable, "-c", script, str(first), str(count)])
  summary = campaign.run(SEED, 0, 6, "", 1, tmp_path, lambda _: None)
  assert summary.kinds == {"same": 5, "crash": 1}
  assert list(summary.findings) == [3] and "exit status 11" in report(summary)


def test_a_model_is_drawn_again_from_its_numbers():
  one, two = grow.draw(SEED, 5), grow.draw(SEED, 5)
  assert [s.proto for s in one.steps] == [s.proto for s in two.steps]
  assert [v.array.tobytes() for v in one.outputs] == [v.array.tobytes() for v in two.outputs]


def test_nodes_that_cannot_be_used_leave_nothing_behind():
  draft, _ = chain("Relu")
  before = list(draft.values)

  def fails(d, op):
    d.new(np.zeros(3, np.float32))
    raise Unfit("no")

  grow.draw_row(draft, replace(ROWS[0], draw=fails), grow.Counter())
  assert draft.values == before


def form(inputs, **attributes):
  arrays = [None if a is None else np.asarray(a) for a in inputs]
  return divergences.Form(attributes, arrays, 1, 28)


LARGE = np.array([[[[2**24 + 1, 5]]]], np.int32)


@pytest.mark.parametrize("op, peer, inputs, attributes, wanted", [
  ("ReduceMean", "onnxruntime", [np.ones(3, np.int64)], {}, True),
  ("ReduceMean", "onnxruntime", [np.ones(3, np.int32)], {}, False),
  ("Resize", "onnxruntime", [LARGE], {"mode": "linear"}, True),
  ("Resize", "onnxruntime", [LARGE], {}, False),
  ("Resize", "onnxruntime", [LARGE - 2], {"mode": "linear"}, False),
  ("ConvTranspose", "reference", [np.ones((1, 2, 2, 2))], {"group": 2}, True),
  ("ConvTranspose", "reference", [np.ones((1, 2, 2, 2))], {}, False),
  ("Slice", "reference", [np.ones((1, 3)), [-2], [-2], [0], [-1]], {}, True),
  ("Slice", "reference", [np.ones((1, 3)), [-3], [0], [1], [-1]], {}, False),
  ("Slice", "reference", [np.ones((1, 3)), [-2], [1], [0], [1]], {}, False),
  ("SoftmaxCrossEntropyLoss", "onnxruntime", [np.float32([[5.8, -8.7, -1.2]])], {}, True),
  ("SoftmaxCrossEntropyLoss", "reference", [np.float32([[5.8, -8.7, -1.2]])], {}, True),
  ("SoftmaxCrossEntropyLoss", "reference", [np.float32([[1, 1, 2]])], {}, False),
])
def test_peers_are_left_out_where_they_diverge(op, peer, inputs, attributes, wanted):
  assert bool(divergences.diverges(peer, op, form(inputs, **attributes))) == wanted


def test_any_number_is_right_where_rounding_decides_all():
  # BlackmanWindow begins with 0.42 - 0.5 + 0.08, which is a little below zero; then Sqrt.
  got, want = np.array([np.nan, 1.0]), np.array([1e-4, 1.0])
  assert check.far_places(got, want, np.array([np.inf, 1e-6])).tolist() == [False, False]
  assert check.far_places(got, want, 1e-3).tolist() == [True, False]
