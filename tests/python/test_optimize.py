"""optimize(): sources, options, errors, report."""

import json
import logging

import numpy as np
import onnx
import pytest
from conftest import assert_close, cnn_model, expected, model_of, value
from onnx import helper

import stretto
from stretto import _stretto


@pytest.mark.parametrize("kind", ["path", "text", "proto", "bytes"])
def test_every_kind_of_source_gives_the_reference_result(kind, cnn, cnn_path, image):
  source = {"path": cnn_path, "text": str(cnn_path), "proto": cnn,
            "bytes": cnn.SerializeToString()}[kind]
  model = stretto.optimize(source, tuning="off")
  assert_close(model(image), expected(cnn, x=image)[0])


@pytest.mark.parametrize("options", [
  {"accuracy": "strict"}, {"accuracy": "fast"}, {"threads": 1}, {"threads": 2},
  {"tuning": "quick"},
  {"tuning": 0.2}, {"level": "lossless"}, {"verify": False},
])
def test_options_do_not_change_the_result(options, cnn, image):
  model = stretto.optimize(cnn, **{"tuning": "off", **options})
  assert_close(model(image), expected(cnn, x=image)[0])


def test_the_model_says_what_it_takes_and_gives(cnn):
  model = stretto.optimize(cnn, tuning="off", threads=1)
  assert model.inputs == [stretto.TensorSpec("x", "float32", (1, 3, 16, 16))]
  assert model.outputs == [stretto.TensorSpec("y", "float32", (1, 10))]
  assert model.threads == 1
  assert "x float32[1, 3, 16, 16]" in repr(model)


def test_an_output_of_nothing_but_nan_passes_no_check():
  nodes = [helper.make_node("Abs", ["x"], ["a"], "abs"),
           helper.make_node("Sub", ["minus", "a"], ["s"], "sub"),
           helper.make_node("Sqrt", ["s"], ["y"], "sqrt")]
  model = model_of(nodes, [value("x", [4])], [value("y", [4])],
                   {"minus": np.array(-1, dtype=np.float32)})
  with pytest.raises(stretto.InvalidArgumentError, match="output y is NaN everywhere"):
    stretto.optimize(model, tuning="off")
  unchecked = stretto.optimize(model, tuning="off", verify=False)
  assert np.isnan(unchecked(np.ones(4, np.float32))).all()


def test_inputs_that_enlarge_rounding_errors_allow_larger_ones():
  # Columns that sum to nothing, times values around 1000: a millionth of those is much of a result.
  generator = np.random.default_rng(0)
  weight = np.round(64 * generator.standard_normal((512, 64))) / 64
  weight[-1] -= weight.sum(0)
  x = (1000 + generator.standard_normal((32, 512))).astype(np.float32)
  model = model_of([helper.make_node("MatMul", ["x", "w"], ["y"], "product")],
                   [value("x", [32, 512])], [value("y", [32, 64])],
                   {"w": weight.astype(np.float32)})
  report = stretto.optimize(model, inputs={"x": x}, tuning="off").report
  assert any("badly conditioned" in note for note in report["notes"])
  assert 1e-4 < report["errors"][0]["relative_to_max"] < 1e-3
  assert 2e-3 < report["errors"][0]["bound"] < 2e-2


def test_open_dimensions_take_the_given_shape():
  model = cnn_model(batch="N")
  fixed = stretto.optimize(model, shapes={"x": (3, 3, 16, 16)}, tuning="off")
  assert fixed.outputs[0].shape == (3, 10)
  x = np.random.default_rng(1).standard_normal((3, 3, 16, 16)).astype(np.float32)
  assert_close(fixed(x), expected(model, x=x)[0])


def test_what_was_assumed_is_logged_once(caplog):
  model = cnn_model(batch="N")
  x = np.random.default_rng(1).standard_normal((1, 3, 16, 16))
  with caplog.at_level(logging.WARNING, "stretto"):
    optimised = stretto.optimize(model, {"x": x}, tuning="off")
  notes = ["input x takes N:0..x3x16x16: optimised for 1x3x16x16, and compiled for other sizes "
           "when they come",
           "input x: float64 was rounded to float32"]
  assert [record.getMessage() for record in caplog.records] == [f"model: {n}" for n in notes]
  assert optimised.report["notes"][:2] == notes
  assert_close(optimised(x), expected(model, x=x.astype(np.float32))[0])


def test_every_pass_can_be_switched_off(cnn, image):
  names = [name for name, _ in stretto.list_passes()]
  assert len(set(names)) > 3
  model = stretto.optimize(cnn, tuning="off", disable=names)
  assert model.report["passes"] == []
  assert_close(model(image), expected(cnn, x=image)[0])


def test_given_inputs_are_named_in_the_report(cnn, image):
  given = stretto.optimize(cnn, {"x": image}, tuning="off").report["inputs"]
  made_up = stretto.optimize(cnn, tuning="off").report["inputs"]
  assert [(i["name"], i["source"]) for i in given] == [("x", "user")]
  assert [(i["name"], i["source"]) for i in made_up] == [("x", "made up")]


def test_the_report_is_written_as_page_and_as_json(cnn, tmp_path):
  page, data = tmp_path / "r.html", tmp_path / "r.json"
  stretto.optimize(cnn, tuning="off", report=page)
  text = page.read_text("utf-8")
  assert text.startswith("<!doctype html>") and "</html>" in text
  for remote in ('src="http', "src='http", 'href="http', "@import", "url(http"):
    assert remote not in text
  model = stretto.optimize(cnn, tuning="off", report=data)
  report = json.loads(data.read_text())
  assert report["latency"]["after"]["median_ms"] > 0
  assert report["errors"][0]["relative_to_max"] <= report["errors"][0]["bound"]
  assert model.report == report


def test_a_missing_file_is_an_oserror_that_names_it():
  with pytest.raises(OSError, match="nowhere.onnx") as caught:
    stretto.optimize("nowhere.onnx")
  assert isinstance(caught.value, stretto.FormatError)


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x07\x12\xff\xff\xff\xff\x0f"])
def test_garbage_is_a_format_error(content):
  with pytest.raises((stretto.FormatError, stretto.InvalidArgumentError)):
    stretto.optimize(content)


def test_a_truncated_model_is_a_format_error(cnn):
  whole = cnn.SerializeToString()
  with pytest.raises((stretto.FormatError, stretto.InvalidArgumentError)):
    stretto.optimize(whole[: len(whole) // 2])


def test_an_unknown_operator_is_unsupported_and_named():
  nodes = [helper.make_node("Frobnicate", ["x"], ["y"], "strange", domain="example")]
  graph = helper.make_graph(nodes, "g", [value("x", [2])], [value("y", [2])])
  model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                  helper.make_opsetid("example", 1)])
  with pytest.raises(NotImplementedError, match="Frobnicate"):
    stretto.optimize(model)


@pytest.mark.parametrize("options, words", [
  ({"level": "lossy"}, "level: expected lossless"),
  ({"accuracy": "high"}, "expected strict, default or fast"),
  ({"tuning": "sometimes"}, "tuning"),
  ({"threads": -1}, "threads"),
  ({"disable": ["no_such_pass"]}, "no_such_pass"),
  ({"force": {"conv2d": "no_such_kernel"}}, "no_such_kernel"),
  ({"shapes": {"nobody": (1,)}}, "nobody"),
])
def test_a_wrong_option_is_a_value_error_that_names_it(options, words, cnn):
  with pytest.raises(ValueError, match=words):
    stretto.optimize(cnn, **{"tuning": "off", **options})


@pytest.mark.parametrize("option, given, words", [
  ("threads", "2", "an integer"), ("threads", 1.5, "an integer"), ("threads", 10**12, "1 to 1024"),
  ("level", 1, "a string"), ("accuracy", None, "a string"),
  ("shapes", {"x": 3}, "a list of integers"), ("shapes", {"x": ["a"]}, "a list of integers"),
  ("shapes", [1], "a dictionary"), ("disable", [3], "a string"), ("disable", 3, "a list"),
  ("force", "direct", "a dictionary"), ("force", {"conv2d": 3}, "a string"),
  ("tuning_cache", 3, "a path"), ("report", 3, "a path"), ("peers", 3, "a list"),
  ("inputs", {"x": "text"}, "numbers"), ("inputs", {3: np.zeros(3)}, "a string"),
  ("source", "a\0b.onnx", "null"), ("source", "\udcff.onnx", "UTF-8"),
])
def test_an_option_of_a_wrong_type_is_an_invalid_argument_that_names_it(option, given, words, cnn):
  words = f"^{option}.*: .*{words}"
  with pytest.raises(stretto.InvalidArgumentError, match=words):
    stretto.optimize(**{"source": cnn, "tuning": "off", option: given})


def test_a_report_that_cannot_be_written_is_refused_before_the_work():
  with pytest.raises(FileNotFoundError, match="/proc/nowhere/r.html"):
    stretto.optimize(b"no model", report="/proc/nowhere/r.html")


def test_one_pass_may_be_disabled_by_its_name_alone(cnn):
  with pytest.raises(stretto.InvalidArgumentError, match="called 'no-such-pass'"):
    stretto.optimize(cnn, tuning="off", disable="fold-constants,no-such-pass")
  stretto.optimize(cnn, tuning="off", disable="fold-constants")


@pytest.mark.parametrize("level", ["half", "int8"])
def test_a_level_that_is_planned_is_unsupported_and_says_so(level, cnn):
  with pytest.raises(stretto.UnsupportedError, match=f"level: '{level}' is planned"):
    stretto.optimize(cnn, level=level)


def test_a_report_has_no_peers_unless_asked(cnn, tmp_path):
  data = tmp_path / "r.json"
  stretto.optimize(cnn, tuning="off", report=data)
  assert json.loads(data.read_text())["latency"]["peers"] == []


def test_peers_are_the_ones_asked_for(cnn, tmp_path):
  model = stretto.optimize(cnn, tuning="off", peers=["mnn", "ncnn", "mnn"])
  peers = model.report["latency"]["peers"]
  assert [peer["name"] for peer in peers] == ["mnn", "ncnn"]
  for peer in peers:
    assert peer.get("median_ms", 0) > 0 or "pip install" in peer["error"]
  assert model.report["memory"]["serving_peak_bytes"] > 0


def test_a_peer_that_fails_is_logged_in_its_own_words(cnn, monkeypatch, caplog):
  monkeypatch.setattr(_stretto, "report_with_peers", lambda *_: json.dumps({"latency": {"peers": [
    {"name": "mnn", "error": "its process exited with code 1", "last_words": ["no licence"]}]}}))
  with caplog.at_level(logging.WARNING, "stretto"):
    stretto.optimize(cnn, tuning="off", peers="mnn")
  assert "mnn was not timed: its process exited with code 1\n  no licence" in caplog.text


@pytest.mark.parametrize("peers", [["fastest"], "fastest", "mnn,fastest"])
def test_an_unknown_peer_is_refused_at_once_with_those_there_are(peers):
  with pytest.raises(stretto.InvalidArgumentError,
                     match="fastest: no such peer; there are onnxruntime, openvino"):
    stretto.optimize("is_not_read.onnx", peers=peers)


def test_inputs_of_the_wrong_shape_are_a_value_error(cnn):
  with pytest.raises(ValueError, match="x"):
    stretto.optimize(cnn, {"x": np.zeros((1, 3, 8, 8), np.float32)}, tuning="off")
  with pytest.raises(ValueError, match="dictionary"):
    stretto.optimize(cnn, np.zeros((1, 3, 16, 16), np.float32))


def test_a_source_of_a_strange_type_is_a_value_error():
  with pytest.raises(ValueError, match="int"):
    stretto.optimize(3)


def test_weights_in_a_file_beside_the_model_are_found(cnn, image, tmp_path):
  path = tmp_path / "big.onnx"
  onnx.save(cnn_model(), path, save_as_external_data=True, size_threshold=0, location="big.data")
  assert_close(stretto.optimize(path, tuning="off")(image), expected(cnn, x=image)[0])
  (tmp_path / "big.data").unlink()
  with pytest.raises(OSError, match="big.data"):
    stretto.optimize(path)


def test_a_model_without_computation_passes_its_input_through():
  nodes = [helper.make_node("Identity", ["x"], ["y"], "same")]
  model = model_of(nodes, [value("x", [2, 3])], [value("y", [2, 3])], {})
  x = np.arange(6, dtype=np.float32).reshape(2, 3)
  assert (stretto.optimize(model, tuning="off")(x) == x).all()


@pytest.mark.parametrize("name", ["r.pdf", "r", "r.HTM"])
def test_a_report_of_another_format_is_refused_before_the_work(name, tmp_path):
  with pytest.raises(stretto.InvalidArgumentError, match="report: expected a name that ends in"):
    stretto.optimize(b"no model", report=tmp_path / name)
  with pytest.raises(stretto.InvalidArgumentError, match="path: expected a name that ends in"):
    stretto.Report().save(tmp_path / name)
  assert not (tmp_path / name).exists()


def test_a_report_does_not_replace_another_file_that_is_named(cnn, tmp_path):
  source, cache = tmp_path / "m.json", tmp_path / "cache.json"
  onnx.save(cnn, source, format="protobuf")
  (tmp_path / "r.html").symlink_to(source)
  for report in (source, tmp_path / "r.html"):
    with pytest.raises(stretto.InvalidArgumentError, match="would replace source"):
      stretto.optimize(source, tuning="off", report=report)
  with pytest.raises(stretto.InvalidArgumentError, match="would replace tuning_cache"):
    stretto.optimize(source, tuning="off", tuning_cache=cache, report=cache)


def test_a_report_makes_no_folder(tmp_path):
  report = tmp_path / "typo" / "r.html"
  with pytest.raises(FileNotFoundError, match="there is no folder .*typo"):
    stretto.optimize(b"no model", report=report)
  with pytest.raises(FileNotFoundError, match="there is no folder .*typo"):
    stretto.Report().save(report)
  assert not report.parent.exists()
