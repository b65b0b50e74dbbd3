"""Networks with a state."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class LstmClassifier(nn.Module):
  def __init__(self):
    super().__init__()
    self.lstm = nn.LSTM(64, 128, 2, batch_first=True)
    self.head = nn.Linear(128, 10)

  def forward(self, x):
    y, _ = self.lstm(x)
    return self.head(y[:, -1])


class GruTagger(nn.Module):
  def __init__(self):
    super().__init__()
    self.embed = nn.Embedding(1000, 64)
    self.gru = nn.GRU(64, 128, 2, batch_first=True, bidirectional=True)
    self.head = nn.Linear(256, 17)

  def forward(self, ids):
    return self.head(self.gru(self.embed(ids))[0])


class LstmLanguageModel(nn.Module):
  def __init__(self):
    super().__init__()
    self.embed = nn.Embedding(1000, 128)
    self.lstm = nn.LSTM(128, 128, batch_first=True)

  def forward(self, ids, hidden, cell):
    y, (hidden, cell) = self.lstm(self.embed(ids), (hidden[None], cell[None]))
    return F.linear(y, self.embed.weight), hidden[0], cell[0]


class LstmProjected(nn.Module):
  def __init__(self):
    super().__init__()
    self.lstm = nn.LSTM(64, 128, proj_size=32, batch_first=True)

  def forward(self, x):
    y, (hidden, cell) = self.lstm(x)
    return y, hidden, cell


class PlainRnn(nn.Module):
  def __init__(self):
    super().__init__()
    self.rnn = nn.RNN(64, 128, batch_first=True)
    self.head = nn.Linear(128, 5)

  def forward(self, x):
    y, state = self.rnn(x)
    return self.head(y), state


class LstmCells(nn.Module):
  def __init__(self):
    super().__init__()
    self.first, self.second = nn.LSTMCell(64, 96), nn.LSTMCell(96, 96)
    self.head = nn.Linear(96, 3)

  def forward(self, x):
    a = b = None
    outputs = []
    for step in x.unbind(1):
      a = self.first(step, a)
      b = self.second(a[0], b)
      outputs.append(self.head(b[0]))
    return torch.stack(outputs, 1)


class Crnn(nn.Module):
  """Shi et al. 2015."""

  def __init__(self):
    super().__init__()
    widths, layers = (1, 32, 64, 128), []
    for a, b in zip(widths, widths[1:]):
      layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(),
                 nn.MaxPool2d((2, 2) if b < 128 else (2, 1))]
    self.features = nn.Sequential(*layers)
    self.lstm = nn.LSTM(128 * 4, 128, bidirectional=True)
    self.head = nn.Linear(256, 37)

  def forward(self, x):
    y = self.features(x).flatten(1, 2).permute(2, 0, 1)
    return self.head(self.lstm(y)[0]).log_softmax(-1)


class ConvLstm(nn.Module):
  """Shi et al. 2015: products of the cell are convolutions."""

  def __init__(self):
    super().__init__()
    self.gates = nn.Conv2d(3 + 16, 4 * 16, 3, padding=1)
    self.last = nn.Conv2d(16, 3, 1)

  def forward(self, frames):
    batch, _, _, height, width = frames.shape
    hidden = cell = frames.new_zeros(batch, 16, height, width)
    for x in frames.unbind(1):
      i, f, g, o = self.gates(torch.cat([x, hidden], 1)).chunk(4, 1)
      cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
      hidden = o.sigmoid() * cell.tanh()
    return self.last(hidden)


class Translator(nn.Module):
  """Bahdanau et al. 2015."""

  def __init__(self):
    super().__init__()
    self.source, self.target = nn.Embedding(1000, 64), nn.Embedding(1000, 64)
    self.encoder = nn.GRU(64, 64, batch_first=True, bidirectional=True)
    self.start = nn.Linear(128, 128)
    self.cell = nn.GRUCell(64 + 128, 128)
    self.key, self.query = nn.Linear(128, 64), nn.Linear(128, 64)
    self.score = nn.Linear(64, 1)
    self.head = nn.Linear(256, 1000)

  def forward(self, source, target):
    memory, _ = self.encoder(self.source(source))
    keys, state = self.key(memory), self.start(memory.mean(1)).tanh()
    outputs = []
    for word in self.target(target).unbind(1):
      weights = self.score(torch.tanh(keys + self.query(state)[:, None])).softmax(1)
      seen = (weights * memory).sum(1)
      state = self.cell(torch.cat([word, seen], -1), state)
      outputs.append(self.head(torch.cat([state, seen], -1)))
    return torch.stack(outputs, 1)
