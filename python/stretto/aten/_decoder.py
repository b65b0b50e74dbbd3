"""Decoders of transformers with their past as inputs and outputs, which contexts can hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from stretto import _stretto
from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto.aten import graph_of_module

# Sizes that the module is traced with: all different, and none that PyTorch takes for a constant.
_BATCH, _NEW, _PAST = 2, 3, 5


def decoder_session(module: torch.nn.Module, options: _stretto.Options,
                    tell: Any) -> _stretto.Session:
  """The module on tensors only, for all lengths.

  Its inputs are `input_ids` [batch, new], `attention_mask` [batch, past + new], `position_ids`
  [batch, new] where the module takes them, and `past_key_values_0_key` ... [batch, heads, past,
  width]; its outputs `logits` [batch, 1, vocabulary], of all places where the module cannot leave
  the others out, and `present.0.key` ... [batch, heads, past + new, width].

  Raises:
    InvalidArgumentError: it is no decoder of transformers, or in training mode.
    UnsupportedError: PyTorch cannot trace it so, or the engine lacks an operator; the text says
      which.
  """
  name = type(module).__name__
  config = getattr(module, "config", None)
  if config is None or not hasattr(module, "generate") or not hasattr(config, "num_hidden_layers"):
    raise InvalidArgumentError(f"model: {name} is no Hugging Face module for causal language "
                               "modelling; export it to ONNX with its past as inputs")
  if module.training:
    raise InvalidArgumentError(f"{name} is in training mode; call module.eval() first")
  with torch.no_grad():  # a short run says what a past looks like
    kept = module(torch.zeros(_BATCH, _PAST, dtype=torch.long), use_cache=True).past_key_values
  layers = getattr(kept, "layers", None)
  if not layers or not all(hasattr(layer, "keys") and layer.keys.shape[2] == _PAST
                           for layer in layers):
    raise UnsupportedError(f"model: the past of {name} is not one of keys and values per layer")
  past = [{"key": layer.keys.clone(), "value": layer.values.clone()} for layer in layers]
  inputs: dict[str, Any] = {
    "input_ids": torch.zeros(_BATCH, _NEW, dtype=torch.long),
    "attention_mask": torch.ones(_BATCH, _PAST + _NEW, dtype=torch.long),
    "past_key_values": past,
  }
  batch, new, length = (torch.export.Dim(name) for name in ("batch", "new", "past"))
  dims: dict[str, Any] = {
    "input_ids": {0: batch, 1: new},
    "attention_mask": {0: batch, 1: torch.export.Dim.DYNAMIC},
    "past_key_values": [dict.fromkeys(layer, {0: batch, 2: length}) for layer in past],
  }
  taken = inspect.signature(module.forward).parameters
  if "position_ids" in taken:
    inputs["position_ids"] = torch.arange(_PAST, _PAST + _NEW)[None].repeat(_BATCH, 1)
    dims["position_ids"] = {0: batch, 1: new}
  try:
    graph, shapes, _, _ = graph_of_module(
      _WithPast(module, type(kept), "logits_to_keep" in taken).eval(), inputs, None, dims)
  except UnsupportedError as error:
    raise UnsupportedError(f"model: {name} with its past as inputs: {error}") from None
  return _stretto.optimize_open_graph(graph, options, {}, tell, shapes)


class _WithPast(torch.nn.Module):
  """The past as keys and values of every layer, [batch, heads, past, width] each."""

  def __init__(self, decoder: torch.nn.Module, cache: Callable[[], Any], keep_last: bool) -> None:
    super().__init__()
    self.decoder = decoder
    self._cache = cache
    self._options: dict[str, Any] = {"logits_to_keep": 1} if keep_last else {}

  def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor,
              past_key_values: list[dict[str, torch.Tensor]],
              position_ids: torch.Tensor | None = None) -> dict[str, Any]:
    past, new = past_key_values[0]["key"].shape[2], input_ids.shape[1]
    torch._check(attention_mask.shape[1] == past + new)
    cache = self._cache()
    for i, layer in enumerate(past_key_values):
      cache.update(layer["key"], layer["value"], i)
    positions = {} if position_ids is None else {"position_ids": position_ids}
    result = self.decoder(input_ids=input_ids, attention_mask=attention_mask,
                          past_key_values=cache, use_cache=True, **positions, **self._options)
    return {"logits": result.logits,
            "present": [{"key": layer.keys, "value": layer.values}
                        for layer in result.past_key_values.layers]}
