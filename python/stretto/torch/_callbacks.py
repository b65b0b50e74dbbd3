"""Callbacks of futures that wait for futures.

The completion thread calls them. What one waits for is often set by the callback of an operation
that this thread would call next, so wait() calls it: that of the operations which the future was
made of, by then() or collect_all(), or of any operation if they are not known.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterable

import torch

from stretto import _completions
from stretto._errors import Error

Future = torch._C.Future

# What a future is made of: weak references to objects with finish_in_callback().
SOURCES: weakref.WeakKeyDictionary[Future, frozenset] = weakref.WeakKeyDictionary()


def note_sources(future: Future, of: Iterable[Future]) -> None:
  sources = frozenset().union(*(SOURCES.get(each, ()) for each in of))
  if sources:
    SOURCES[future] = sources


def finish(future: Future) -> None:
  """Calls what sets the future, if this thread is the one to do it."""
  completions = _completions.calling()
  if completions is None:
    return
  for source in SOURCES.get(future, ()):
    work = source()
    if work is not None and not future.done():
      work.finish_in_callback()
  if not future.done():
    wake_when_done(future, completions)
    completions._finish_in_callback(None, future.done)


def wake_when_done(future: Future, completions: _completions.Completions) -> None:
  """Another thread may set it."""
  def wake(_):
    with contextlib.suppress(Error):  # closed meanwhile
      completions.native.interrupt()

  future.add_done_callback(wake)


def apply() -> None:
  """Changes torch._C.Future itself: then() and collect_all() return objects of that class."""
  wait, then, collect = Future.wait, Future.then, torch._C._collect_all

  @functools.wraps(wait)
  def finish_and_wait(self):
    if not self.done():
      finish(self)
    return wait(self)

  @functools.wraps(then)
  def then_noted(self, callback):
    made = then(self, callback)
    note_sources(made, [self])
    return made

  @functools.wraps(collect)
  def collect_noted(futures):
    made = collect(futures)
    note_sources(made, futures)
    return made

  Future.wait, Future.then, torch._C._collect_all = finish_and_wait, then_noted, collect_noted
