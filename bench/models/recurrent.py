"""Recurrent layers as speech and language models stack them: two LSTM layers (Hochreiter and
Schmidhuber 1997) and a classifier of the last step."""

from __future__ import annotations

from torch import nn

INPUTS, HIDDEN, LAYERS, CLASSES = 256, 512, 2, 1000


class Classifier(nn.Module):
  def __init__(self):
    super().__init__()
    self.lstm = nn.LSTM(INPUTS, HIDDEN, LAYERS)
    self.head = nn.Linear(HIDDEN, CLASSES)

  def forward(self, x):
    y, _ = self.lstm(x)
    return self.head(y[-1])


def lstm_2x512() -> nn.Module:
  return Classifier()
