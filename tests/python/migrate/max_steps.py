"""Steps instead of epochs: an iterator that begins again, resumed from a checkpoint."""
import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Text(Dataset):
    def __init__(self, length):
        text = "the quick brown fox jumps over the lazy dog " * 8
        self.chars = sorted(set(text))
        self.ids = torch.tensor([self.chars.index(c) for c in text])
        self.length = length

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.ids[i:i + self.length], self.ids[i + 1:i + self.length + 1]


class CharModel(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.embed = nn.Embedding(vocab, 8)
        self.rnn = nn.GRU(8, 16, batch_first=True)
        self.head = nn.Linear(16, vocab)

    def forward(self, ids, targets=None):
        logits = self.head(self.rnn(self.embed(ids))[0])
        if targets is None:
            return logits
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, ids, count):
        for _ in range(count):
            ids = torch.cat([ids, self(ids)[:, -1:].argmax(-1)], 1)
        return ids


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--steps", type=int, default=16)
parser.add_argument("--resume", default="")
config = parser.parse_args()

if __name__ == "__main__":
    torch.manual_seed(9)
    dataset = Text(6)
    loader = DataLoader(dataset, batch_size=config.batch, shuffle=True)
    model = CharModel(len(dataset.chars))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    if config.resume and os.path.exists(config.resume):
        checkpoint = torch.load(config.resume, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        step = checkpoint["step"]
    batches = iter(loader)
    while step < config.steps:
        try:
            ids, targets = next(batches)
        except StopIteration:
            batches = iter(loader)
            ids, targets = next(batches)
        _, loss = model(ids, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 4 == 0:
            print(f"step {step}: loss {loss.item():.10f}")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                        "step": step}, "last.pt")
    model.eval()
    out = model.generate(dataset.ids[None, :4], 8)
    print("".join(dataset.chars[i] for i in out[0]))
