"""Decoding: tokens from a decoder model, one after the other."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from stretto._context import Context
from stretto._errors import InvalidArgumentError
from stretto._model import Model
from stretto._optimize import load, optimize
from stretto._sampling import Sampler
from stretto._torch_types import TorchModule


def generate(
  model: Model | str | os.PathLike[str] | TorchModule,
  ids: Any,
  max_new_tokens: int,
  *,
  temperature: float = 0.0,
  top_k: int = 0,
  top_p: float = 1.0,
  seed: int = 0,
  eos: int | Iterable[int] | None = None,
  attention_mask: Any = None,
  callback: Callable[[np.ndarray], object] | None = None,
  context: Context | None = None,
) -> np.ndarray:
  """Generates tokens with a decoder model.

  The prompt runs at once and every token after it in a step of its own, which appends to the caches
  of keys and values in place.

  Args:
    model: a decoder: what `optimize` or `load` returned, the path of an ONNX file or artefact, or a
      Hugging Face module for causal language modelling. A module is exported by the first call,
      and the result is kept as long as the module lives: later changes of its weights have no
      effect. A model takes token ids, `attention_mask`, `position_ids` and its past; it returns
      logits [batch, places, vocabulary] and the past with the new places. One without a past works
      too, but runs over all tokens in every step.
    ids: the prompts: [batch, places] of integers, a list of lists that may differ in length, or one
      prompt [places].
    max_new_tokens: how many tokens to generate at most.
    temperature: 0: the most likely token. Otherwise tokens are drawn with the probabilities
      softmax(logits / temperature).
    top_k: draw from this many of the most likely tokens; 0: from all.
    top_p: draw from the most likely tokens whose probabilities sum to this; 1: from all.
    seed: of the random numbers. A prompt gets the same tokens in every batch that it stands in the
      same place of, up to rounding of the logits.
    eos: the token, or tokens, at which a sample ends. None: none.
    attention_mask: of an array of prompts: 1 for its tokens, 0 for padding on either side.
    callback: called after every step with the new token of each sample, an array [batch].
    context: an empty context, or one that earlier tokens have filled, to go on from: `ids` are then
      what follows them. After a call of this function the context has all tokens but the last of
      each sample, so `ids` begin with that one. None: a new one.

  Returns:
    The new tokens, [batch, tokens] or, for one prompt, [tokens]. A sample that has ended repeats
    its last token.

  Raises:
    InvalidArgumentError: an argument is wrong, or the model is no such decoder; the text says which
      and why.

  Examples:
    >>> stretto.generate(decoder, [3, 1, 4], max_new_tokens=5).shape
    (5,)
    >>> stretto.generate(decoder, [[3, 1, 4], [1, 5]], 5, temperature=0.8, top_k=10).shape
    (2, 5)
  """
  steps = []
  for tokens in stream(model, ids, max_new_tokens, temperature=temperature, top_k=top_k,
                       top_p=top_p, seed=seed, eos=eos, attention_mask=attention_mask,
                       context=context):
    if callback is not None:
      callback(tokens)
    steps.append(tokens)
  single = steps[0].ndim == 0 if steps else _is_single(ids)
  if not steps:
    return np.zeros(0 if single else (len(ids), 0), np.int64)
  return np.stack(steps, axis=-1)


def stream(
  model: Model | str | os.PathLike[str] | TorchModule,
  ids: Any,
  max_new_tokens: int,
  *,
  temperature: float = 0.0,
  top_k: int = 0,
  top_p: float = 1.0,
  seed: int = 0,
  eos: int | Iterable[int] | None = None,
  attention_mask: Any = None,
  context: Context | None = None,
) -> Iterator[np.ndarray]:
  """Generates tokens and gives each as soon as it is there.

  Args:
    model: as in `generate`.
    ids: as in `generate`.
    max_new_tokens: as in `generate`.
    temperature: as in `generate`.
    top_k: as in `generate`.
    top_p: as in `generate`.
    seed: as in `generate`.
    eos: as in `generate`.
    attention_mask: as in `generate`.
    context: as in `generate`.

  Returns:
    An iterator over steps, which gives the new token of each sample: an array [batch] of integers,
    without the dimension if `ids` is one prompt.

  Raises:
    InvalidArgumentError: as in `generate`.

  Examples:
    >>> [token.shape for token in stretto.stream(decoder, [3, 1, 4], 2)]
    [(), ()]
  """
  if context is not None and not isinstance(context, Context):
    raise InvalidArgumentError(
      f"context: expected what Model.context returned, got {type(context).__name__}")
  single = _is_single(ids)
  prompts, mask = _prompts([ids] if single else ids,
                           None if attention_mask is None or not single else [attention_mask])
  if attention_mask is not None and not single:
    prompts, mask = _prompts(ids, attention_mask)
  if max_new_tokens < 0:
    raise InvalidArgumentError(f"max_new_tokens: expected 0 or more, got {max_new_tokens}")
  ends = _ends(eos)
  sampler = Sampler(len(prompts), temperature, top_k, top_p, seed)
  decoder = _decoder_of(_model_of(model), prompts, mask, max_new_tokens, context)
  return _steps(decoder, sampler, prompts, mask, max_new_tokens, ends, single)


def _steps(decoder: Any, sampler: Sampler, prompts: np.ndarray, mask: np.ndarray,
           max_new_tokens: int, ends: set[int], single: bool) -> Iterator[np.ndarray]:
  ended = np.zeros(len(prompts), bool)
  tokens = np.zeros(len(prompts), np.int64)
  for step in range(max_new_tokens):
    logits = decoder.prompt(prompts, mask) if step == 0 else decoder.step(tokens, ended)
    drawn = sampler.draw(logits)
    tokens = np.where(ended, tokens, drawn)
    yield tokens[0].copy() if single else tokens.copy()
    if ends:
      ended |= np.isin(tokens, list(ends))
      if ended.all():
        return


class _WithPast:
  """Logits of the last places, from a model that takes its past."""

  def __init__(self, model: Model, context: Context) -> None:
    self.model, self.context = model, context
    if len(context.inputs) != 1:
      raise InvalidArgumentError(
        f"{model.name}: generate gives token ids and the past, and this model needs "
        f"{', '.join(context.inputs)}; call it with a context instead")
    self.tokens = context.inputs[0]
    self.logits = context.outputs.index(_logits_name(model, context.outputs))
    self.has_mask = any(spec.name == "attention_mask" for spec in model.inputs)

  def prompt(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return self._run(ids, None if mask.all() else mask)

  def step(self, tokens: np.ndarray, ended: np.ndarray) -> np.ndarray:
    # What follows the end of a sample is hidden, so that its context is what was generated.
    hides = self.has_mask and ended.any()
    mask = (~ended).astype(np.int64)[:, None] if hides else None
    return self._run(tokens[:, None], mask)

  def _run(self, ids: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    arrays = {self.tokens: ids}
    if mask is not None:
      arrays["attention_mask"] = mask
    outputs = self.model._run_on((arrays,), {"context": self.context},
                                 self.context.outputs[self.logits])
    return _checked(outputs[self.logits], self.model)[:, -1]


class _WithoutPast:
  """The same from a model that takes all tokens in every step."""

  def __init__(self, model: Model) -> None:
    self.model = model
    self.names = [spec.name for spec in model.inputs]
    self.tokens = next((n for n in self.names if n not in ("attention_mask", "position_ids")), "")
    rest = [n for n in self.names if n not in (self.tokens, "attention_mask", "position_ids")]
    if rest:
      raise InvalidArgumentError(
        f"{model.name}: expected token ids, attention_mask, position_ids and a past whose outputs "
        f"grow (past_key_values.0.key and present.0.key); the model also needs {', '.join(rest)}. "
        "Export it with its past, as Optimum's text-generation-with-past does")
    self.logits = _logits_name(model, [spec.name for spec in model.outputs])

  def prompt(self, ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    # Each alone, so that no padding is needed.
    self.samples = [row[seen != 0] for row, seen in zip(ids, mask)]
    return self._all()

  def step(self, tokens: np.ndarray, ended: np.ndarray) -> np.ndarray:
    self.samples = [np.append(row, token) for row, token in zip(self.samples, tokens)]
    return self._all()

  def _all(self) -> np.ndarray:
    return np.stack([self._last(row) for row in self.samples])

  def _last(self, row: np.ndarray) -> np.ndarray:
    values = {self.tokens: row, "attention_mask": np.ones_like(row),
              "position_ids": np.arange(len(row))}
    outputs = self.model.run({spec.name: values[spec.name][None].astype(spec.dtype)
                              for spec in self.model.inputs})
    logits: np.ndarray = _checked(outputs[self.logits], self.model)[0, -1]
    return logits


def _decoder_of(model: Model, prompts: np.ndarray, mask: np.ndarray, max_new_tokens: int,
                context: Context | None) -> Any:
  if context is None and not _takes_past(model):
    return _WithoutPast(model)
  if context is None:
    longest = int(mask.sum(axis=1).max())
    context = model.context(len(prompts), max_length=longest + max(max_new_tokens, 1))
  if context.batch != len(prompts):
    raise InvalidArgumentError(f"context: it is for a batch of {context.batch}, and there are "
                               f"{len(prompts)} prompts")
  if context.length > 0 and not mask.all():
    raise InvalidArgumentError("attention_mask: what follows on a context must be as long for all "
                               "samples; the first prompts may differ")
  return _WithPast(model, context)


def _takes_past(model: Model) -> bool:
  names = [spec.name for spec in model.inputs]
  return any("past" in name or "cache" in name for name in names)


def _logits_name(model: Model, outputs: Sequence[str]) -> str:
  if "logits" in outputs:
    return "logits"
  if not outputs:
    raise InvalidArgumentError(f"{model.name}: it returns nothing besides its state")
  return outputs[0]


def _checked(logits: np.ndarray, model: Model) -> np.ndarray:
  if logits.ndim != 3:
    raise InvalidArgumentError(f"{model.name}: expected logits of [batch, places, vocabulary], got "
                               f"{list(logits.shape)}")
  return logits


def _model_of(model: Any) -> Model:
  if isinstance(model, Model):
    return model
  if isinstance(model, (str, os.PathLike)):
    path = os.fspath(model)
    return load(path) if path.endswith(".stretto") else optimize(path)
  torch = sys.modules.get("torch")
  if torch is not None and isinstance(model, torch.nn.Module):
    from stretto._decoder_module import decoder_model

    return decoder_model(model)
  raise InvalidArgumentError(
    f"model: expected a stretto.Model or a path, got {type(model).__name__}")


def _is_single(ids: Any) -> bool:
  if isinstance(ids, (list, tuple)):
    return not ids or not hasattr(ids[0], "__len__")
  return getattr(ids, "ndim", 2) == 1


def _prompts(ids: Any, attention_mask: Any) -> tuple[np.ndarray, np.ndarray]:
  """Prompts side by side, padded on the left, and which places are theirs."""
  rows = [_integers("ids", row) for row in ids]
  if not rows:
    raise InvalidArgumentError("ids: expected at least one prompt")
  if attention_mask is None:
    longest = max(len(row) for row in rows)
    masks = [np.concatenate([np.zeros(longest - len(row), np.int64), np.ones(len(row), np.int64)])
             for row in rows]
    rows = [np.concatenate([np.zeros(longest - len(row), np.int64), row]) for row in rows]
  else:
    masks = [(_integers("attention_mask", row) != 0).astype(np.int64) for row in attention_mask]
  if [len(row) for row in masks] != [len(row) for row in rows] or len({len(r) for r in rows}) != 1:
    raise InvalidArgumentError("attention_mask: expected the shape of ids")
  mask = np.stack(masks)
  if not mask.any(axis=1).all():
    raise InvalidArgumentError("ids: a prompt needs at least one token")
  return np.stack(rows), mask


def _integers(name: str, row: Any) -> np.ndarray:
  array = np.asarray(row)
  if array.ndim != 1 or (array.size and array.dtype.kind not in "iub"):
    raise InvalidArgumentError(f"{name}: expected prompts of integers, got {array.dtype} of shape "
                               f"{list(array.shape)}")
  return array.astype(np.int64)


def _ends(eos: int | Iterable[int] | None) -> set[int]:
  if eos is None:
    return set()
  try:
    return {operator.index(eos)}  # type: ignore[arg-type]
  except TypeError:
    pass
  try:
    return {operator.index(token) for token in eos}  # type: ignore[union-attr]
  except TypeError:
    raise InvalidArgumentError(f"eos: expected a token or several, got {eos!r}") from None
