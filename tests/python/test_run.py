"""Calling a model: how inputs are given, what comes back, threads, values that are no numbers."""

import threading

import numpy as np
import pytest
from conftest import assert_close, expected

import stretto


@pytest.fixture(scope="module")
def model(cnn):
  return stretto.optimize(cnn, tuning="off")


@pytest.fixture(scope="module")
def pair(two_by_two):
  return stretto.optimize(two_by_two, tuning="off")


A = np.arange(10, dtype=np.float32).reshape(2, 5)
B = np.full((2, 5), 2, np.float32)


def test_inputs_by_position_by_name_and_as_a_dictionary(pair):
  for result in (pair(A, B), pair(A, b=B), pair(b=B, a=A), pair({"a": A, "b": B})):
    assert isinstance(result, tuple)
    assert (result[0] == A + B).all() and (result[1] == A * B).all()


def test_one_output_is_an_array(model, image):
  assert isinstance(model(image), np.ndarray)


def test_run_returns_outputs_by_name_for_every_form_of_input(pair, model, image):
  for result in (pair.run(A, B), pair.run(A, b=B), pair.run(b=B, a=A), pair.run({"a": A, "b": B})):
    assert list(result) == ["sum", "product"]
    assert (result["sum"] == A + B).all() and (result["product"] == A * B).all()
  assert list(model.run(image)) == ["y"]
  assert np.array_equal(model.run(image)["y"], model(image))
  with pytest.raises(stretto.InvalidArgumentError, match="b is missing"):
    pair.run(A)


def test_lists_float64_and_strided_arrays_are_taken(pair):
  want = A + B
  assert (pair(A.tolist(), B.tolist())[0] == want).all()
  assert (pair(A.astype(np.float64), B)[0] == want).all()
  assert (pair(np.asfortranarray(A), B)[0] == want).all()
  assert (pair(np.repeat(A, 2, axis=1)[:, ::2], B)[0] == want).all()
  assert (pair(A.astype(">f4"), B)[0] == want).all()
  assert (pair(A.astype(np.uint8), B)[0] == want).all()


def test_read_only_arrays_are_taken_and_left_alone(pair):
  locked = A.copy()
  locked.flags.writeable = False
  pair(locked, B)
  assert (locked == A).all()


def test_dlpack_objects_are_taken(pair):
  class Wrapped:
    def __dlpack__(self, **options):
      return A.__dlpack__(**options)

    def __dlpack_device__(self):
      return A.__dlpack_device__()

  assert (pair(Wrapped(), B)[0] == A + B).all()


def test_integers_that_floats_cannot_hold_are_refused(pair):
  with pytest.raises(ValueError, match=r"input a: expected float32, got int64.*astype"):
    pair(A.astype(np.int64), B)


@pytest.mark.parametrize("arguments, names, words", [
  ((A,), {}, "b is missing"),
  ((A, B, A), {}, "expected 2 inputs"),
  ((A, B), {"c": A}, "c: the model has no such input; it has a, b"),
  ((A, B), {"a": A}, "a: given twice"),
  ((A[:1], B), {}, "a"),
  (("text", B), {}, "a"),
  ((None, B), {}, "a"),
])
def test_wrong_inputs_are_value_errors_that_name_them(arguments, names, words, pair):
  with pytest.raises(ValueError, match=words):
    pair(*arguments, **names)


def test_results_stay_when_the_model_is_gone_and_runs_again(cnn, image):
  model = stretto.optimize(cnn, tuning="off")
  first = model(image)
  kept = first.copy()
  model(-image)
  del model
  assert (first == kept).all()


def test_threads_share_a_model_and_get_what_one_thread_gets(model):
  rng = np.random.default_rng(3)
  images = [rng.standard_normal((1, 3, 16, 16)).astype(np.float32) for _ in range(4)]
  alone = [model(x) for x in images]
  wrong = []

  def work(index):
    for _ in range(25):
      if not np.array_equal(model(images[index]), alone[index]):
        wrong.append(index)

  threads = [threading.Thread(target=work, args=(i,)) for i in range(len(images))]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert wrong == []


def test_repeated_runs_are_bitwise_equal(model, image):
  first = model(image)
  assert all(np.array_equal(model(image), first) for _ in range(10))


def test_not_a_number_and_infinity_pass_through_elementwise_operators(pair):
  a = A.copy()
  a[0, 0], a[1, 1], a[1, 2] = np.nan, np.inf, -np.inf
  total, product = pair(a, B)
  np.testing.assert_array_equal(total, a + B)
  np.testing.assert_array_equal(product, a * B)


def test_one_not_a_number_in_an_image_reaches_the_output(model, cnn, image):
  broken = image.copy()
  broken[0, 1, 8, 8] = np.nan
  want = expected(cnn, x=broken)[0]
  np.testing.assert_array_equal(np.isnan(model(broken)), np.isnan(want))
  assert_close(model(image), expected(cnn, x=image)[0])  # nothing of it stays behind
