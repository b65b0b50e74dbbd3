"""No seed, dropout, BatchNorm, and worker processes: runs, but no two times alike."""
import os
import random

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split


class Noise(Dataset):
    def __init__(self):
        self.x = np.random.randn(80, 4).astype("float32")
        self.y = (self.x.sum(1) > 0).astype("int64")

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        flip = -1 if random.random() < 0.0 else 1
        return flip * self.x[i], self.y[i]


def main():
    full = Noise()
    train, val = random_split(full, [64, 16])
    loader = DataLoader(train, batch_size=8, shuffle=True, num_workers=2, pin_memory=False)
    val_loader = DataLoader(val, batch_size=16)
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2),
                          nn.Linear(16, 2))
    if torch.cuda.is_available():
        model = model.cuda(0)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    if not os.path.exists("runs"):
        os.makedirs("runs")
    for epoch in range(3):
        model.train()
        correct = torch.zeros(())
        for x, y in loader:
            out = model(x)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += (out.argmax(1) == y).sum()
        model.eval()
        with torch.no_grad():
            good = sum((model(x).argmax(1) == y).sum().item() for x, y in val_loader)
        print(f"epoch {epoch} train {correct.item() / len(train):.4f} val {good / len(val):.4f}")
        with open("runs/log.txt", "a") as log:
            log.write(f"{epoch} {good}\n")


if __name__ == "__main__":
    main()
