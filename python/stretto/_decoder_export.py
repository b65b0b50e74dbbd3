"""Hugging Face modules for causal language modelling as ONNX models that take their past."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import tempfile
import warnings
import weakref
from pathlib import Path
from typing import Any

from stretto._errors import InvalidArgumentError, UnsupportedError
from stretto._model import Model
from stretto._optimize import optimize

# By module, so that a second call exports nothing.
_MADE: weakref.WeakKeyDictionary[Any, Model] = weakref.WeakKeyDictionary()


def decoder_model(module: Any) -> Model:
  """The optimised model of a module: the same as long as the module lives."""
  if module not in _MADE:
    with tempfile.TemporaryDirectory() as folder:
      path = Path(folder, "decoder.onnx")
      _export(module, path)
      _MADE[module] = optimize(path)
  return _MADE[module]


def _export(module: Any, path: Path) -> None:
  import torch

  name = type(module).__name__
  config = getattr(module, "config", None)
  if config is None or not hasattr(module, "generate") or not hasattr(config, "num_hidden_layers"):
    raise InvalidArgumentError(f"model: {name} is no Hugging Face module for causal language "
                               "modelling; export it to ONNX with its past as inputs")
  if importlib.util.find_spec("onnxscript") is None:
    raise UnsupportedError("model: PyTorch's ONNX exporter needs the package onnxscript; install "
                           "it, or give an ONNX file")
  if module.training:
    raise InvalidArgumentError(f"{name} is in training mode; call module.eval() first")
  batch, new, past = 2, 3, 5
  with torch.no_grad():  # a short run says what a past looks like
    kept = module(torch.zeros(batch, past, dtype=torch.long), use_cache=True).past_key_values
  layers = getattr(kept, "layers", None)
  if not layers or not all(hasattr(layer, "keys") and layer.keys.shape[2] == past
                           for layer in layers):
    raise UnsupportedError(f"model: the past of {name} is not one of keys and values per layer")
  count = len(layers)
  keep_last = ("logits_to_keep" in inspect.signature(module.forward).parameters)
  with_past = _with_past(module, {"logits_to_keep": 1} if keep_last else {})
  pairs = [(layer.keys.clone(), layer.values.clone()) for layer in layers]
  arguments = (torch.zeros(batch, new, dtype=torch.long),
               torch.ones(batch, past + new, dtype=torch.long),
               torch.arange(past, past + new)[None].repeat(batch, 1), pairs)
  open_ = torch.export.Dim.DYNAMIC
  dims = {0: open_, 1: open_}
  dynamic = (dims, dims, dims, [({0: open_, 2: open_}, {0: open_, 2: open_})] * count)
  parts = [(i, part) for i in range(count) for part in ("key", "value")]
  inputs = ["input_ids", "attention_mask", "position_ids",
            *(f"past_key_values.{i}.{part}" for i, part in parts)]
  outputs = ["logits", *(f"present.{i}.{part}" for i, part in parts)]
  with warnings.catch_warnings(), torch.no_grad():
    warnings.simplefilter("ignore")
    try:
      program = torch.onnx.export(with_past, arguments, dynamo=True, dynamic_shapes=dynamic,
                                  input_names=inputs, output_names=outputs, verbose=False)
    except Exception as error:
      raise UnsupportedError(f"model: PyTorch cannot export {name} with its past: "
                             f"{error}") from error
    assert program is not None
    program.save(str(path), external_data=True)


def _with_past(module: Any, options: dict[str, Any]) -> Any:
  """The module on tensors only: the past as pairs of keys and values."""
  import torch

  cache_type: Any = importlib.import_module("transformers").DynamicCache

  class WithPast(torch.nn.Module):
    def __init__(self) -> None:
      super().__init__()
      self.decoder = module

    def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any, past: Any) -> Any:
      cache = cache_type()
      for i, (key, value) in enumerate(past):
        cache.update(key, value, i)
      result = self.decoder(input_ids=input_ids, attention_mask=attention_mask,
                            position_ids=position_ids, past_key_values=cache, use_cache=True,
                            **options)
      kept = result.past_key_values.layers
      return result.logits, *(x for layer in kept for x in (layer.keys, layer.values))

  return WithPast().eval()
