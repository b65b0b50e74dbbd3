"""How the next token is chosen."""

from __future__ import annotations

import math

import numpy as np

from stretto._errors import InvalidArgumentError


class Sampler:
  """Chooses a token per sample from logits [batch, vocabulary].

  Every sample has random numbers of its own, so that it does not matter which others there are.
  """

  def __init__(self, batch: int, temperature: float, top_k: int, top_p: float, seed: int) -> None:
    if not (temperature >= 0 and math.isfinite(temperature)):
      raise InvalidArgumentError(f"temperature: expected 0 or more, got {temperature}")
    if top_k < 0:
      raise InvalidArgumentError(f"top_k: expected 0 (all) or more, got {top_k}")
    if not 0 < top_p <= 1:
      raise InvalidArgumentError(f"top_p: expected more than 0 and at most 1, got {top_p}")
    if seed < 0:
      raise InvalidArgumentError(f"seed: expected 0 or more, got {seed}")
    self.temperature, self.top_k, self.top_p = temperature, int(top_k), top_p
    self.random = [np.random.default_rng([seed, i]) for i in range(batch)]

  def draw(self, logits: np.ndarray) -> np.ndarray:
    if np.isnan(logits).any():
      raise InvalidArgumentError("the model's logits are not numbers (NaN); check its weights and "
                                 "inputs")
    if self.temperature == 0:
      best: np.ndarray = logits.argmax(axis=-1).astype(np.int64)
      return best
    return np.array([self._one(row, random) for row, random in zip(logits, self.random)], np.int64)

  def _one(self, logits: np.ndarray, random: np.random.Generator) -> int:
    wide = logits.astype(np.float64)
    scaled = (wide - wide.max()) / self.temperature
    tokens = np.arange(len(scaled))
    if 0 < self.top_k < len(scaled):
      tokens = np.argpartition(-scaled, self.top_k - 1)[:self.top_k]
      tokens.sort()
    weights = np.exp(scaled[tokens] - scaled[tokens].max())
    weights /= weights.sum()
    if self.top_p < 1:
      order = np.argsort(-weights, kind="stable")
      sums = np.cumsum(weights[order])
      # All before the one that reaches it, and that one.
      kept = order[:int(np.searchsorted(sums, self.top_p)) + 1]
      tokens, weights = tokens[kept], weights[kept]
    sums = np.cumsum(weights)
    at = np.searchsorted(sums, random.random() * sums[-1], side="right")
    return int(tokens[min(int(at), len(tokens) - 1)])
