"""The builder that frameworks' modules become graphs with."""

import numpy as np
import pytest

import stretto
from stretto import _stretto


def builder():
  return _stretto.GraphBuilder("made", "pytorch", "test 1")


def options():
  chosen = _stretto.Options()
  chosen.tuning, chosen.tuning_cache, chosen.threads = "off", "none", 1
  return chosen


def test_a_graph_is_inferred_as_it_grows_and_optimised_at_the_end():
  graph = builder()
  x = graph.input("x", "float32", [2, 3])
  weight = np.arange(12, dtype=np.float32).reshape(3, 4)
  w = graph.constant(weight, "w")
  (y,) = graph.node("MatMul", [x, w], {}, 1, "product")
  assert graph.spec(y) == ("float32", [2, 4])
  parts = graph.node("Split", [y], {"axis": 1, "num_outputs": 2}, 2, "halves")
  assert [graph.spec(p) for p in parts] == [("float32", [2, 2])] * 2
  graph.note("made by hand")
  graph.finish([(parts[1], "right"), (x, "copy"), (parts[1], "again")])
  given = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
  session = _stretto.optimize_graph(graph, options(), {"x": given}, None)
  assert [name for name, _, _ in session.outputs] == ["right", "copy", "again"]
  right, copy, again = session.run([given])
  np.testing.assert_allclose(right, (given @ weight)[:, 2:], rtol=1e-5)
  np.testing.assert_array_equal(copy, given)
  np.testing.assert_array_equal(again, right)
  assert session.notes == ["made by hand"]
  with pytest.raises(ValueError, match="use it once"):
    _stretto.optimize_graph(graph, options(), {}, None)


def test_sizes_that_only_a_run_tells_are_assumed():
  graph = builder()
  x = graph.input("x", "float32", [2, 3])
  (places,) = graph.assumed_node("NonZero", [x], {}, [("int64", [2, 4])], "places")
  (rows,) = graph.node("Transpose", [places], {"perm": [1, 0]}, 1, "rows")
  assert graph.spec(rows) == ("int64", [4, 2])
  graph.finish([(rows, "rows")])
  session = _stretto.optimize_open_graph(graph, options(), {}, None, {"x": "2x3"})
  for given in (np.eye(2, 3), np.zeros((2, 3)), np.ones((2, 3))):
    (found,) = session.run([given.astype(np.float32)])
    np.testing.assert_array_equal(found, np.argwhere(given))


def test_small_results_of_constants_are_known():
  graph = builder()
  a = graph.constant(np.array([2, 3], np.int64), "a")
  x = graph.input("x", "float32", [2, 3])
  (b,) = graph.node("Add", [a, a], {}, 1, "b")
  np.testing.assert_array_equal(graph.known(b), [4, 6])
  assert graph.known(x) is None


def test_weights_may_change_once_the_model_is_made():
  graph = builder()
  table = np.arange(8, dtype=np.float32).reshape(4, 2)
  x = graph.input("x", "int64", [3])
  (y,) = graph.node("Gather", [graph.constant(table, "table"), x], {"axis": 0}, 1, "look up")
  graph.finish([(y, "y")])
  places = np.array([3, 0, 1])
  session = _stretto.optimize_graph(graph, options(), {"x": places}, None)
  expected = table[places].copy()
  table[:] = -1
  np.testing.assert_array_equal(session.run([places])[0], expected)


def test_errors_name_operator_and_node_and_leave_the_builder_usable():
  graph = builder()
  x = graph.input("x", "float32", [2, 3])
  with pytest.raises(ValueError, match='Frobnicate "f": Stretto has no such operator'):
    graph.node("Frobnicate", [x], {}, 1, "f")
  with pytest.raises(ValueError, match='Relu "r": has no attribute alpha'):
    graph.node("Relu", [x], {"alpha": 1.0}, 1, "r")
  with pytest.raises(ValueError, match='Softmax "s": attribute axis has the wrong type'):
    graph.node("Softmax", [x], {"axis": "last"}, 1, "s")
  with pytest.raises(ValueError, match='MatMul "m": A of shape'):
    graph.node("MatMul", [x, x], {}, 1, "m")
  with pytest.raises(ValueError, match="there is no value 99"):
    graph.node("Relu", [99], {}, 1, "r")
  with pytest.raises(ValueError, match="made: finish the graph"):
    _stretto.optimize_graph(graph, options(), {}, None)
  (y,) = graph.node("Relu", [x], {}, 1, "r")
  graph.finish([(y, "y")])
  with pytest.raises(ValueError, match="made: the graph is finished"):
    graph.input("z", "float32", [1])
  given = np.array([[-1, 0, 1]] * 2, np.float32)
  (result,) = _stretto.optimize_graph(graph, options(), {"x": given}, None).run([given])
  np.testing.assert_array_equal(result, np.maximum(given, 0))


def test_inputs_are_checked():
  with pytest.raises(ValueError, match="input x: expected a shape of sizes from 0"):
    builder().input("x", "float32", [-1])
  with pytest.raises(stretto.InvalidArgumentError, match="complex64"):
    builder().input("x", "complex64", [1])
