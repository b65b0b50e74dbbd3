"""Decoders in PyTorch generate the tokens that they make without Stretto."""

import importlib.util
from types import SimpleNamespace

import pytest

import stretto

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

TRANSFORMERS = importlib.util.find_spec("transformers") is not None
if TRANSFORMERS:
  import transformers

PROMPTS = [[3, 1, 4, 1, 5], [7], [2, 7, 1, 8, 2, 8, 1, 8]]
COMMON = {"vocab_size": 300, "initializer_range": 0.3, "bos_token_id": None, "eos_token_id": None}
GROUPED = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
           "num_key_value_heads": 2, "intermediate_size": 128, **COMMON}


class Cache:
  """Keys and values per layer, as in the caches of transformers."""

  def __init__(self):
    self.layers = []

  def update(self, keys, values, layer):
    if layer == len(self.layers):
      self.layers.append(SimpleNamespace(keys=keys, values=values))
    else:
      kept = self.layers[layer]
      kept.keys = torch.cat([kept.keys, keys], 2)
      kept.values = torch.cat([kept.values, values], 2)
    return self.layers[layer].keys, self.layers[layer].values


class Layer(nn.Module):
  def __init__(self, width, heads, number):
    super().__init__()
    self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
    self.norm, self.heads, self.number = nn.RMSNorm(width, elementwise_affine=False), heads, number

  def forward(self, x, seen, cache):
    q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2)
               for part in self.qkv(self.norm(x)).chunk(3, 2))
    k, v = cache.update(k, v, self.number)
    y = nn.functional.scaled_dot_product_attention(q, k, v, seen)
    return x + self.out(y.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
  """What `generate` expects of a decoder. `positions`: it takes them, and else counts the mask."""

  def __init__(self, positions):
    super().__init__()
    self.config = SimpleNamespace(num_hidden_layers=2)
    self.words, self.places = nn.Embedding(100, 32), nn.Embedding(256, 32)
    self.layers = nn.ModuleList([Layer(32, 4, i) for i in range(2)])
    self.head = nn.Linear(32, 100)
    self.forward = self.with_positions if positions else self.without

  def without(self, input_ids, attention_mask=None, past_key_values=None, use_cache=True):
    return self.with_positions(input_ids, attention_mask, None, past_key_values, use_cache)

  def with_positions(self, input_ids, attention_mask=None, position_ids=None, past_key_values=None,
                     use_cache=True):
    cache = Cache() if past_key_values is None else past_key_values
    past = cache.layers[0].keys.shape[2] if cache.layers else 0
    new = input_ids.shape[1]
    if attention_mask is None:
      attention_mask = torch.ones(input_ids.shape[0], past + new, dtype=torch.long)
    if position_ids is None:
      position_ids = (attention_mask.cumsum(1) - 1).clamp(min=0)[:, past:]
    ahead = torch.arange(past + new)[None] > torch.arange(past, past + new)[:, None]
    seen = (attention_mask[:, None, None, :] > 0) & ~ahead
    x = self.words(input_ids) + self.places(position_ids)
    for layer in self.layers:
      x = layer(x, seen, cache)
    return SimpleNamespace(logits=self.head(x), past_key_values=cache)

  def generate(self, ids, count):
    for _ in range(count):
      ids = torch.cat([ids, self(ids).logits[:, -1:].argmax(2)], 1)
    return ids


@pytest.mark.parametrize("positions", [True, False])
def test_a_decoder_with_a_cache_of_its_own(positions):
  torch.manual_seed(1)
  module = Decoder(positions).eval()
  for parameter in module.parameters():
    parameter.data = torch.randn_like(parameter) * (0.3 if parameter.ndim > 1 else 0)
  got = stretto.generate(module, PROMPTS, 40)
  with torch.no_grad():
    for prompt, tokens in zip(PROMPTS, got):
      expected = module.generate(torch.tensor([prompt]), 40)[0, len(prompt):]
      assert tokens.tolist() == expected.tolist()
  assert len(set(got[0].tolist())) > 5
  # Nothing is traced again.
  assert stretto.generate(module, PROMPTS[0], 3).tolist() == got[0][:3].tolist()
  with pytest.raises(stretto.InvalidArgumentError, match="training mode"):
    stretto.generate(Decoder(positions), [1], 3)


def test_a_past_of_another_form_is_refused():
  class Recurrent(Decoder):
    def with_positions(self, *args, **kwargs):
      return SimpleNamespace(logits=None, past_key_values=torch.zeros(1))

  with pytest.raises(stretto.UnsupportedError, match="not one of keys and values per layer"):
    stretto.generate(Recurrent(True).eval(), [1], 3)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not TRANSFORMERS, reason="transformers is not installed")
@pytest.mark.parametrize("name, options", [
  ("GPT2LMHeadModel", {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256, **COMMON}),
  ("LlamaForCausalLM", GROUPED),
])
def test_greedy_tokens_are_those_of_the_module(name, options):
  torch.manual_seed(1)
  make = getattr(transformers, name)
  module = make(make.config_class(**options)).eval()
  got = stretto.generate(module, PROMPTS, 80)
  for prompt, tokens in zip(PROMPTS, got):
    row = torch.tensor([prompt])
    expected = module.generate(row, attention_mask=torch.ones_like(row), max_new_tokens=80,
                               do_sample=False, eos_token_id=None, pad_token_id=0)
    assert tokens.tolist() == expected[0, len(prompt):].tolist()
  assert len(set(got[0].tolist())) > 5


def test_other_modules_are_refused():
  with pytest.raises(stretto.InvalidArgumentError, match="no Hugging Face module"):
    stretto.generate(torch.nn.Linear(2, 2).eval(), [1], 3)
