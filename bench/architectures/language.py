"""A decoder in the style of Llama, for a prompt and for one more token."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, HEADS, SHARED, HIDDEN, VOCABULARY = 512, 3, 8, 2, 1408, 1000
SIZE = WIDTH // HEADS


class RmsNorm(nn.Module):
  """As people write it."""

  def __init__(self, width: int):
    super().__init__()
    self.weight = nn.Parameter(torch.ones(width))

  def forward(self, x):
    scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return x * scale * self.weight


def rotated(x, first: int):
  """Rotary positions (Su et al. 2021) of tokens from `first` on.

  x: [batch, heads, length, size].
  """
  steps = 10000.0 ** (-torch.arange(0, SIZE, 2) / SIZE)
  angles = torch.outer(torch.arange(first, first + x.shape[2]).float(), steps)
  cosine, sine = (torch.cat([f(angles)] * 2, -1) for f in (torch.cos, torch.sin))
  low, high = x.chunk(2, -1)
  return x * cosine + torch.cat([-high, low], -1) * sine


class Layer(nn.Module):
  def __init__(self):
    super().__init__()
    self.norm1, self.norm2 = RmsNorm(WIDTH), RmsNorm(WIDTH)
    self.query = nn.Linear(WIDTH, HEADS * SIZE, bias=False)
    self.key = nn.Linear(WIDTH, SHARED * SIZE, bias=False)
    self.value = nn.Linear(WIDTH, SHARED * SIZE, bias=False)
    self.out = nn.Linear(WIDTH, WIDTH, bias=False)
    self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
    self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
    self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

  def forward(self, x, past=None):
    batch, length, _ = x.shape
    y = self.norm1(x)
    query, key, value = (f(y).view(batch, length, -1, SIZE).transpose(1, 2)
                         for f in (self.query, self.key, self.value))
    first = 0 if past is None else past.shape[3]
    query, key = rotated(query, first), rotated(key, first)
    if past is not None:
      key, value = torch.cat([past[:, 0], key], 2), torch.cat([past[:, 1], value], 2)
    y = F.scaled_dot_product_attention(query, key, value, is_causal=past is None, enable_gqa=True)
    x = x + self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))
    y = self.norm2(x)
    return x + self.down(F.silu(self.gate(y)) * self.up(y)), torch.stack([key, value], 1)


class LlamaPrompt(nn.Module):
  def __init__(self):
    super().__init__()
    self.embed = nn.Embedding(VOCABULARY, WIDTH)
    self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
    self.norm = RmsNorm(WIDTH)
    self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

  def forward(self, ids):
    """Logits of every place, and keys and values for the next call."""
    x, kept = self.embed(ids), []
    for layer in self.layers:
      x, pair = layer(x)
      kept.append(pair)
    return self.head(self.norm(x)), torch.stack(kept, 1)


class LlamaStep(LlamaPrompt):
  def forward(self, ids, past):
    """`past`: keys and values [batch, layers, 2, shared heads, length, size]."""
    x, kept = self.embed(ids), []
    for i, layer in enumerate(self.layers):
      x, pair = layer(x, past[:, i])
      kept.append(pair)
    return self.head(self.norm(x)), torch.stack(kept, 1)
