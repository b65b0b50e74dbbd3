"""Recurrent layers whose batch and length stay open."""

import threading

import pytest

import stretto

torch = pytest.importorskip("torch")
if not hasattr(torch.export, "default_decompositions"):
  pytest.skip("this PyTorch is too old to optimise modules", allow_module_level=True)

from stretto.aten._recurrent_shapes import recurrent_as_wholes  # noqa: E402
from torch import nn  # noqa: E402

Dim = torch.export.Dim
QUICK = {"tuning": "off", "tuning_cache": "none", "threads": 1, "progress": False}
# fp32 sums of 20 terms in another order, through 40 steps and two layers, of values below 1.
TOLERANCE = 1e-5


class Tagger(nn.Module):
  """The length is open in what the layers take and in what follows."""

  def __init__(self, layer, **options):
    super().__init__()
    self.words = nn.Embedding(50, 8)
    self.layer = layer(8, 12, 2, bidirectional=True, **options)
    self.head = nn.LazyLinear(5)

  def forward(self, tokens):
    y, state = self.layer(self.words(tokens))
    return self.head(y).softmax(2), state


def leaves(result):
  return torch.utils._pytree.tree_leaves(result)


def close(got, expected):
  for g, e in zip(leaves(got), leaves(expected), strict=True):
    g = torch.as_tensor(g)
    assert g.shape == e.shape and (g - e).abs().max() <= TOLERANCE


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("layer, options", [
  (nn.GRU, {}), (nn.LSTM, {}), (nn.RNN, {}), (nn.RNN, {"nonlinearity": "relu"}),
  (nn.LSTM, {"proj_size": 5})])
def test_batch_and_length_stay_open(layer, options, batch_first, tmp_path):
  torch.manual_seed(1)
  module = Tagger(layer, batch_first=batch_first, **options).eval()
  tokens = torch.randint(50, (3, 6))
  with torch.no_grad():
    module(tokens)  # which makes the head
    model = stretto.optimize(module, tokens, **QUICK,
                             dynamic_shapes=({0: Dim("a", max=64), 1: Dim("b", max=64)},))
    shapes = (3, 6), (1, 1), (2, 40), (9, 4)
    for shape in shapes:
      tokens = torch.randint(50, shape)
      close(model(tokens), module(tokens))
    if "proj_size" in options:  # which is a graph of its own for every length
      with pytest.raises(stretto.UnsupportedError, match="with fixed shapes to save it"):
        model.save(tmp_path / "m.stretto")
      return
    model.save(tmp_path / "m.stretto")
    loaded = stretto.load(tmp_path / "m.stretto")
    for shape in shapes:
      tokens = torch.randint(50, shape)
      close(list(loaded.run({"tokens": tokens.numpy()}).values()), module(tokens))


def test_other_threads_trace_as_before():
  """A thread that unrolls a layer meanwhile gets all of its steps."""
  tensors = [torch.randn(3, 2, 4), torch.zeros(1, 2, 6),
             *(weight.detach() for weight in nn.GRU(4, 6).parameters())]
  graphs = []

  def layer(x, state, *weights):
    return torch.gru(x, state, weights, True, 1, 0.0, False, False, False)

  def trace():
    make = torch.fx.experimental.proxy_tensor.make_fx(layer, tracing_mode="symbolic")
    graphs.append(make(*tensors).graph)

  def operators(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]

  trace()
  with recurrent_as_wholes():
    thread = threading.Thread(target=trace)
    thread.start()
    thread.join()
  trace()
  first, during, after = map(operators, graphs)
  assert sum("tanh" in name for name in first) == 3
  assert first == during == after
