"""Masks of PyTorch's transformers: by module and by torch.compile, all of it in the engine."""

import pytest

torch = pytest.importorskip("torch")

from stretto.aten import _compile  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.modules import transformer  # noqa: E402

import stretto  # noqa: E402

SEED = 20261129
# Relative to the largest: two layers of sums of 64 products in float32.
TOLERANCE = 1e-4
OPTIONS = {"tuning": "off", "tuning_cache": "none", "threads": 1, "verify": False}
BATCH, LENGTH, WIDTH = 3, 10, 32
PADDING = torch.arange(LENGTH) >= torch.tensor([[7], [10], [3]])
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
CAUSAL = torch.zeros(LENGTH, LENGTH).masked_fill(LATER, float("-inf"))


def layer(**options):
  return nn.TransformerEncoderLayer(WIDTH, 4, 64, **{"batch_first": True, **options})


class Attention(nn.Module):
  def __init__(self):
    super().__init__()
    self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)

  def forward(self, x, **masks):
    return self.attention(x, x, x, **masks)


class Decoder(nn.Module):
  def __init__(self):
    super().__init__()
    one = nn.TransformerDecoderLayer(WIDTH, 4, 64, batch_first=True)
    self.decoder = nn.TransformerDecoder(one, 2)

  def forward(self, x, **masks):
    return self.decoder(x, x.flip(1), **masks)


CASES = {
  "padding": (lambda: nn.TransformerEncoder(layer(), 2), {"src_key_padding_mask": PADDING}),
  "padding as numbers": (
    lambda: nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False),
    {"src_key_padding_mask": torch.zeros(BATCH, LENGTH).masked_fill(PADDING, float("-inf"))}),
  "causal": (lambda: nn.TransformerEncoder(layer(activation="gelu"), 2), {"mask": CAUSAL}),
  "causal by name": (lambda: nn.TransformerEncoder(layer(norm_first=True), 2),
                     {"mask": CAUSAL, "is_causal": True}),
  "both": (lambda: nn.TransformerEncoder(layer(norm_first=True), 2),
           {"mask": LATER, "src_key_padding_mask": PADDING}),
  "one layer": (layer, {"src_mask": LATER, "src_key_padding_mask": PADDING}),
  "attention": (Attention, {"key_padding_mask": PADDING}),
  "attention with weights of heads": (Attention, {"attn_mask": LATER,
                                                  "average_attn_weights": False}),
  "decoder": (Decoder, {"tgt_mask": CAUSAL, "memory_key_padding_mask": PADDING}),
}


@pytest.fixture(params=CASES)
def case(request):
  print("seed", SEED)
  torch.manual_seed(SEED)
  torch._dynamo.reset()
  make, masks = CASES[request.param]
  module, x = make().eval(), torch.randn(BATCH, LENGTH, WIDTH)
  with torch.no_grad():
    expected = module(x, **masks)
  return module, x, masks, expected


def check(got, expected, masks):
  assert isinstance(got, tuple) == isinstance(expected, tuple)
  for one, other in zip(*((r if isinstance(r, tuple) else (r,)) for r in (got, expected))):
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    if "src_key_padding_mask" in masks:
      # Without a tracer, PyTorch may put zeros where the padding is.
      one, other = one[~PADDING], other[~PADDING]
    assert (one - other).abs().max() <= TOLERANCE * other.abs().max()


def test_modules_take_masks(case):
  module, x, masks, expected = case
  model = stretto.optimize(module, (x,), kwargs=masks, progress=False, **OPTIONS)
  check(model(x, **masks), expected, masks)


def test_compiled_modules_run_whole(case):
  module, x, masks, expected = case
  programs = []

  def backend(program, examples):
    programs.append(_compile.Compiled(program, examples, OPTIONS))
    return programs[-1]

  with torch.no_grad():
    check(torch.compile(module, backend=backend)(x, **masks), expected, masks)
  assert [len(program.current.parts) for program in programs] == [1]
  assert not programs[0].current.left


def test_the_hint_is_left_as_it_was():
  detect = transformer._detect_is_causal_mask
  module = nn.TransformerEncoder(layer(), 1).eval()
  x = torch.randn(1, LENGTH, WIDTH)
  stretto.optimize(module, (x,), kwargs={"mask": CAUSAL}, progress=False, **OPTIONS)
  assert transformer._detect_is_causal_mask is detect
  assert detect(CAUSAL) is True
