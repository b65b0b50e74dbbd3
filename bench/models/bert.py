"""BERT-base (Devlin et al. 2018, arXiv 1810.04805), the encoder and its pooler. A padded position
gets the most negative float added to its attention score, as the usual implementations do."""

from __future__ import annotations

import torch
from torch import nn

VOCABULARY, POSITIONS, TYPES = 30522, 512, 2
WIDTH, DEPTH, HEADS, MLP = 768, 12, 12, 3072


class Embeddings(nn.Module):
  def __init__(self):
    super().__init__()
    self.word = nn.Embedding(VOCABULARY, WIDTH)
    self.position = nn.Embedding(POSITIONS, WIDTH)
    self.segment = nn.Embedding(TYPES, WIDTH)
    self.norm = nn.LayerNorm(WIDTH, eps=1e-12)

  def forward(self, input_ids, token_type_ids):
    positions = torch.arange(input_ids.shape[1]).unsqueeze(0)
    return self.norm(self.word(input_ids) + self.segment(token_type_ids) + self.position(positions))


class Attention(nn.Module):
  def __init__(self):
    super().__init__()
    self.query = nn.Linear(WIDTH, WIDTH)
    self.key = nn.Linear(WIDTH, WIDTH)
    self.value = nn.Linear(WIDTH, WIDTH)
    self.out = nn.Linear(WIDTH, WIDTH)

  def forward(self, x, bias):
    def heads(y):
      return y.reshape(y.shape[0], y.shape[1], HEADS, WIDTH // HEADS).transpose(1, 2)

    q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
    scores = q @ k.transpose(-2, -1) / (WIDTH // HEADS)**0.5 + bias
    mixed = (torch.softmax(scores, dim=-1) @ v).transpose(1, 2)
    return self.out(mixed.reshape(x.shape[0], x.shape[1], WIDTH))


class Layer(nn.Module):
  def __init__(self):
    super().__init__()
    self.attention = Attention()
    self.norm_attention = nn.LayerNorm(WIDTH, eps=1e-12)
    self.mlp = nn.Sequential(nn.Linear(WIDTH, MLP), nn.GELU(), nn.Linear(MLP, WIDTH))
    self.norm_mlp = nn.LayerNorm(WIDTH, eps=1e-12)

  def forward(self, x, bias):
    x = self.norm_attention(x + self.attention(x, bias))
    return self.norm_mlp(x + self.mlp(x))


class Bert(nn.Module):
  def __init__(self):
    super().__init__()
    self.embeddings = Embeddings()
    self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
    self.pooler = nn.Linear(WIDTH, WIDTH)

  def forward(self, input_ids, attention_mask, token_type_ids):
    mask = attention_mask[:, None, None, :].to(torch.float32)
    bias = (1.0 - mask) * torch.finfo(torch.float32).min
    x = self.embeddings(input_ids, token_type_ids)
    for layer in self.layers:
      x = layer(x, bias)
    return x, torch.tanh(self.pooler(x[:, 0]))


def bert_base() -> nn.Module:
  return Bert()
