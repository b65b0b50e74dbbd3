"""Small decoders in the styles of GPT-2 and Llama, with random weights, as modules and ONNX files.

Their inputs and outputs are called as Optimum and Hugging Face call them.
"""

from __future__ import annotations

import io
import warnings

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY, WIDTH, HEADS, LAYERS, POSITIONS = 97, 48, 4, 2, 400
SIZE = WIDTH // HEADS


def attend(query, key, value, mask):
  """mask: [batch, places before and new], of which the last are the queries'."""
  queries, keys = query.shape[2], key.shape[2]
  group = query.shape[1] // key.shape[1]
  if group > 1:
    key, value = (x[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2) for x in (key, value))
  places = torch.arange(keys)
  seen = places[None] <= torch.arange(queries)[:, None] + (keys - queries)
  seen = seen[None, None] & (mask[:, None, None] != 0)
  scores = query @ key.transpose(2, 3) / SIZE**0.5
  scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
  return scores.softmax(-1) @ value


def split(x, heads: int):
  return x.view(x.shape[0], x.shape[1], heads, SIZE).transpose(1, 2)


class GptLayer(nn.Module):
  def __init__(self):
    super().__init__()
    self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
    self.inner, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
    self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

  def forward(self, x, mask, positions, past):
    query, key, value = (split(part, HEADS) for part in self.inner(self.norm1(x)).split(WIDTH, 2))
    key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
    x = x + self.out(attend(query, key, value, mask).transpose(1, 2).flatten(2))
    return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh")), (key, value)


class RmsNorm(nn.Module):
  def __init__(self):
    super().__init__()
    self.weight = nn.Parameter(torch.ones(WIDTH))

  def forward(self, x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class LlamaLayer(nn.Module):
  """Two heads share keys and values; rotary positions."""

  KV_HEADS = HEADS // 2

  def __init__(self):
    super().__init__()
    self.norm1, self.norm2 = RmsNorm(), RmsNorm()
    self.query = nn.Linear(WIDTH, WIDTH, bias=False)
    self.key = nn.Linear(WIDTH, self.KV_HEADS * SIZE, bias=False)
    self.value = nn.Linear(WIDTH, self.KV_HEADS * SIZE, bias=False)
    self.out = nn.Linear(WIDTH, WIDTH, bias=False)
    self.gate, self.up = (nn.Linear(WIDTH, 2 * WIDTH, bias=False) for _ in range(2))
    self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

  def forward(self, x, mask, positions, past):
    y = self.norm1(x)
    steps = 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
    angles = positions[:, None, :, None] * torch.cat([steps, steps])
    def turned(z):
      low, high = z.chunk(2, -1)
      return z * angles.cos() + torch.cat([-high, low], -1) * angles.sin()
    query = turned(split(self.query(y), HEADS))
    key = turned(split(self.key(y), self.KV_HEADS))
    value = split(self.value(y), self.KV_HEADS)
    key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
    x = x + self.out(attend(query, key, value, mask).transpose(1, 2).flatten(2))
    y = self.norm2(x)
    return x + self.down(F.silu(self.gate(y)) * self.up(y)), (key, value)


class Decoder(nn.Module):
  def __init__(self, kind: str):
    super().__init__()
    torch.manual_seed(7)
    layer = {"gpt": GptLayer, "llama": LlamaLayer}[kind]
    self.kv_heads = getattr(layer, "KV_HEADS", HEADS)
    self.embed = nn.Embedding(VOCABULARY, WIDTH)
    self.places = nn.Embedding(POSITIONS, WIDTH) if kind == "gpt" else None
    self.layers = nn.ModuleList(layer() for _ in range(LAYERS))
    self.norm = nn.LayerNorm(WIDTH)
    self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
    for weight in self.parameters():  # far from uniform, so that the best token is clear
      if weight.ndim == 2:
        nn.init.normal_(weight, std=0.25)
    self.eval()

  def forward(self, input_ids, attention_mask, position_ids, *past):
    x = self.embed(input_ids)
    if self.places is not None:
      x = x + self.places(position_ids)
    present = []
    for i, layer in enumerate(self.layers):
      x, pair = layer(x, attention_mask, position_ids, past[2 * i:2 * i + 2])
      present += pair
    return self.head(self.norm(x)), *present

  @torch.no_grad()
  def logits(self, ids: list[int]) -> torch.Tensor:
    """[places, vocabulary] of one prompt."""
    empty = [torch.zeros(1, self.kv_heads, 0, SIZE)] * (2 * LAYERS)
    row = torch.tensor([ids])
    return self(row, torch.ones_like(row), torch.arange(len(ids))[None], *empty)[0][0]

  def greedy(self, ids: list[int], count: int) -> list[int]:
    ids = list(ids)
    for _ in range(count):
      ids.append(int(self.logits(ids)[-1].argmax()))
    return ids[-count:]


def past_names(before: str) -> list[str]:
  return [f"{before}.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]


def onnx_bytes(decoder: Decoder, positions: bool = True) -> bytes:
  inputs = ["input_ids", "attention_mask", "position_ids", *past_names("past_key_values")]
  outputs = ["logits", *past_names("present")]
  batch, new, past = 2, 3, 5
  args = (torch.ones(batch, new, dtype=torch.long),
          torch.ones(batch, past + new, dtype=torch.long),
          torch.arange(past, past + new).repeat(batch, 1),
          *[torch.randn(batch, decoder.kv_heads, past, SIZE) for _ in range(2 * LAYERS)])
  if not positions:
    args, inputs = args[:2] + args[3:], [name for name in inputs if name != "position_ids"]
  axes = {"input_ids": {0: "batch", 1: "new"}, "attention_mask": {0: "batch", 1: "total"},
          **({"position_ids": {0: "batch", 1: "new"}} if positions else {}),
          **{name: {0: "batch", 2: "past"} for name in past_names("past_key_values")}}
  file = io.BytesIO()
  with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.onnx.export(decoder, args, file, input_names=inputs, output_names=outputs,
                      dynamic_axes=axes, opset_version=17, dynamo=False)
  return file.getvalue()
