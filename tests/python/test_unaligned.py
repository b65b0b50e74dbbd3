"""Inputs that lie at addresses which only suit their elements: they are read where they lie."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402

import stretto  # noqa: E402


class Families(torch.nn.Module):
  """What every family of kernels does, each on an input of the caller."""

  def __init__(self):
    super().__init__()
    self.conv, self.deep = torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.Conv2d(16, 16, 3)
    self.one = torch.nn.Conv2d(16, 24, 1)
    self.each = torch.nn.Conv2d(16, 16, 3, groups=16, padding=1)
    self.up = torch.nn.ConvTranspose2d(16, 8, 2, stride=2)
    self.linear, self.norm = torch.nn.Linear(37, 19), torch.nn.LayerNorm(37)
    self.groups = torch.nn.GroupNorm(4, 16)
    self.recurrent = torch.nn.LSTM(37, 20, batch_first=True)
    self.table = torch.nn.Embedding(11, 9)

  def forward(self, picture, maps, rows, other, heads, doubles, places, small, flags):
    state, _ = self.recurrent(rows)
    return [
      self.conv(picture), self.deep(maps), self.one(maps), self.each(maps), self.up(maps),
      F.max_pool2d(maps, 3, 2), F.avg_pool2d(maps, 2), maps.mean((2, 3)), self.groups(maps),
      F.interpolate(maps, scale_factor=2.0, mode="bilinear"),
      self.linear(rows), self.norm(rows), rows.softmax(-1), rows.sum(-1), rows.amax(1),
      rows @ other, rows * rows[:, :1] + 1, rows.mT.contiguous(), rows.cumsum(1),
      torch.cat([rows, rows * 2], 1), F.pad(rows, (1, 2)), rows.roll(1, 2), state,
      F.scaled_dot_product_attention(heads, heads, heads),
      torch.view_as_real(torch.fft.rfft(rows)), torch.view_as_real(torch.fft.rfft(other)),
      doubles.exp(), doubles.sum(0), self.table(places), places * 3, places.sum(),
      small.float() / 3, small.sum(), small.to(torch.int32) * 2, rows.masked_fill(flags, 0),
      torch.topk(rows, 5)[0], rows.sort(1)[0], rows.gather(1, places[:, :5, None]),
      torch.where(flags, rows, 1), F.grid_sample(maps, rows[..., None, :2], align_corners=False),
    ]


def tensors():
  torch.manual_seed(5)
  return [torch.randn(2, 3, 20, 18), torch.randn(2, 16, 14, 15), torch.randn(2, 13, 37),
          torch.randn(37, 24), torch.randn(2, 4, 9, 16), torch.randn(7, 33, dtype=torch.float64),
          torch.randint(0, 11, (2, 13)), torch.randint(0, 99, (3, 41), dtype=torch.uint8),
          torch.rand(2, 13, 37) > 0.5]


def moved(x, elements):
  """A copy that begins so many elements behind a multiple of 64 bytes."""
  room = torch.empty(x.numel() + 64 + elements, dtype=x.dtype)
  start = -room.data_ptr() % 64 // x.itemsize + elements
  piece = room[start:start + x.numel()].view(x.shape)
  piece.copy_(x)
  assert piece.data_ptr() % 64 == elements * x.itemsize % 64
  return piece


@pytest.mark.parametrize("threads", [1, 2])
def test_every_family_reads_unaligned_inputs(threads):
  given = tensors()
  module = Families().eval()
  model = stretto.optimize(module, tuple(given), tuning="off", tuning_cache="none",
                           threads=threads)
  expected = model(*(moved(x, 0) for x in given))
  with torch.no_grad():
    for got, right in zip(expected, module(*given)):
      torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-4)
  for elements in (1, 2, 3, 5, 7):
    for got, right in zip(model(*(moved(x, elements) for x in given)), expected):
      assert torch.equal(got, right)


def test_addresses_that_do_not_even_suit_the_elements():
  x = np.random.default_rng(0).standard_normal((5, 37)).astype(np.float32)
  room = np.empty(x.nbytes + 1, np.uint8)
  odd = np.ndarray(x.shape, np.float32, room, 1)
  odd[...] = x
  model = stretto.optimize(torch.nn.Linear(37, 8).eval(), torch.from_numpy(x), tuning="off",
                           tuning_cache="none")
  (name,) = (spec.name for spec in model.inputs)
  (got,), (right,) = model.run({name: odd}).values(), model.run({name: x}).values()
  assert np.array_equal(got, right)
