"""Futures of the torch backend."""

import pickle
import threading

import pytest

import stretto

torch = pytest.importorskip("torch")


# DDP reads the value in C++ as soon as the future is done, which may be before set_result() has
# returned to the thread that sets it. Then it must find the error, not a value without tensors.
def test_a_failed_future_raises_for_who_reads_it_before_set_result_returns(monkeypatch):
  from stretto.torch import _work
  values, read = [], []

  class Kept(_work.Failed):

    def __init__(self, error):
      super().__init__(error)
      values.append(self)

  def reader():
    try:
      read.append(pickle.dumps(values[0]))
    except stretto.CommError as error:
      read.append(error)

  def in_set_result(future):
    thread = threading.Thread(target=reader)
    thread.start()
    thread.join()

  monkeypatch.setattr(_work, "Failed", Kept)
  future, lost = torch.futures.Future(), stretto.CommError("rank 1 is lost")
  future.add_done_callback(in_set_result)
  _work.fail(future, lost)
  assert read == [lost]
  with pytest.raises(stretto.CommError, match="rank 1 is lost"):
    future.wait()
  with pytest.raises(stretto.CommError):
    pickle.dumps(values[0])
