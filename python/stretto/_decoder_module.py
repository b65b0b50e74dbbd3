"""Hugging Face modules for causal language modelling as models that take their past."""

from __future__ import annotations

import importlib
import weakref
from typing import Any

from stretto import _stretto
from stretto._model import Model
from stretto._progress import shown

# By module, so that a second call traces nothing.
_MADE: weakref.WeakKeyDictionary[Any, Model] = weakref.WeakKeyDictionary()


def decoder_model(module: Any) -> Model:
  """The optimised model of a module: the same as long as the module lives."""
  if module not in _MADE:
    make = importlib.import_module("stretto.aten._decoder").decoder_session
    with shown(True) as tell:
      _MADE[module] = Model(make(module, _stretto.Options(), tell))
  return _MADE[module]
