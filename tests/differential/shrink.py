"""Makes a model that shows a defect small: fewer nodes, plainer settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from differential.check import Outcome, Settings, check_steps
from differential.draft import Draft, Step, Value
from differential.grow import needed_steps

_MOST_TRIES = 80


@dataclass
class Failure:
  """A model that shows a defect.

  Attributes:
    steps: its nodes.
    outputs: its outputs.
    inputs: values that other nodes made and that are its inputs now.
    settings: how it is run.
    outcome: what is wrong.
  """
  steps: list[Step]
  outputs: list[Value]
  inputs: tuple[Value, ...]
  settings: Settings
  outcome: Outcome


def shrink(draft: Draft, failure: Failure) -> Failure:
  """A smaller model with a defect of the same kind."""
  tries = 0
  progress = True
  while progress and tries < _MOST_TRIES:
    progress = False
    for candidate in _smaller(failure):
      tries += 1
      if tries >= _MOST_TRIES:
        break
      outcome = check_steps(draft, candidate.steps, candidate.outputs, candidate.settings,
                            candidate.inputs)
      if outcome.kind == failure.outcome.kind:
        failure = replace(candidate, outcome=outcome)
        progress = True
        break
  return failure


def _smaller(failure: Failure) -> Iterator[Failure]:
  plain = Settings(accuracy=failure.settings.accuracy)
  if failure.settings != plain:
    yield replace(failure, settings=plain)
  if len(failure.steps) > 1:  # one node alone
    for step in failure.steps:
      given = tuple(v for v in step.inputs if v.kind == "node")
      yield replace(failure, steps=[step], outputs=step.outputs, inputs=given)
  if len(failure.outputs) > 1:
    for output in failure.outputs:
      yield replace(failure, outputs=[output],
                    steps=needed_steps(failure.steps, [output], failure.inputs))
  made = [v for step in failure.steps for v in step.outputs]
  for value in reversed(made):  # a value as an input, without the nodes that made it
    if value not in failure.inputs and value not in failure.outputs:
      inputs = (*failure.inputs, value)
      steps = needed_steps(failure.steps, failure.outputs, inputs)
      if steps and len(steps) < len(failure.steps):
        yield replace(failure, steps=steps, inputs=inputs)
  for value in made:  # an earlier value as the output
    steps = needed_steps(failure.steps, [value], failure.inputs)
    if len(steps) < len(failure.steps) and value not in failure.inputs:
      yield replace(failure, steps=steps, outputs=[value])
