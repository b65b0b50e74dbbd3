"""Saving and loading: the same results, and no damaged file gets through."""

import numpy as np
import pytest

import stretto


@pytest.fixture(scope="module")
def model(cnn):
  return stretto.optimize(cnn, tune="off")


@pytest.fixture(scope="module")
def artefact(model, tmp_path_factory):
  path = tmp_path_factory.mktemp("artefact") / "m.stretto"
  model.save(path)
  return path


def test_a_loaded_model_is_the_saved_one(model, artefact, image):
  loaded = stretto.load(artefact)
  assert np.array_equal(loaded(image), model(image))
  assert loaded.inputs == model.inputs and loaded.outputs == model.outputs
  assert loaded.report["model"] == model.report["model"]


def test_optimize_of_an_artefact_loads_it(artefact, model, image):
  assert np.array_equal(stretto.optimize(str(artefact))(image), model(image))


def test_another_instruction_set_still_gives_the_result(artefact, model, image, monkeypatch):
  want = model(image)
  for isa in ("portable", "avx2"):
    monkeypatch.setenv("STRETTO_ISA", isa)
    got = stretto.load(artefact)(image)
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


@pytest.mark.parametrize("keep", [0, 1, 7, 64, 0.5, 0.99, -1])
def test_a_truncated_artefact_is_a_format_error(keep, artefact, tmp_path):
  whole = artefact.read_bytes()
  size = keep if isinstance(keep, int) else int(len(whole) * keep)
  cut = tmp_path / "cut.stretto"
  cut.write_bytes(whole[:size])
  with pytest.raises(stretto.FormatError, match="cut.stretto"):
    stretto.load(cut)


def test_no_altered_byte_goes_unnoticed(artefact, tmp_path):
  whole = artefact.read_bytes()
  altered = tmp_path / "altered.stretto"
  seed = 11
  for at in np.random.default_rng(seed).integers(0, len(whole), 60):
    changed = bytearray(whole)
    changed[at] ^= 0x40
    altered.write_bytes(changed)
    try:
      stretto.load(altered)
    except stretto.FormatError:
      continue
    pytest.fail(f"byte {at} of {len(whole)} was altered and nobody noticed")


def test_files_of_other_kinds_are_format_errors(cnn_path, tmp_path):
  for content in (b"", b"hello", cnn_path.read_bytes()):
    other = tmp_path / "other.stretto"
    other.write_bytes(content)
    with pytest.raises(OSError, match="other.stretto"):
      stretto.load(other)


def test_saving_where_nothing_can_be_written_is_an_oserror(model, tmp_path):
  (tmp_path / "file").write_bytes(b"")
  with pytest.raises(OSError, match="m.stretto"):
    model.save(tmp_path / "file" / "m.stretto")


def test_the_artefact_can_be_replaced_while_a_model_of_it_lives(model, image, tmp_path):
  path = tmp_path / "m.stretto"
  model.save(path)
  loaded = stretto.load(path)
  want = loaded(image)
  model.save(path)
  assert np.array_equal(loaded(image), want)
