"""A Trainer with early stopping and a best checkpoint that is read at the end."""
import argparse
import os
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split


class Rings(Dataset):
    def __init__(self, count, rng):
        self.labels = rng.integers(0, 2, count)
        angles = rng.uniform(0, 2 * np.pi, count)
        radius = 1.0 + self.labels + rng.normal(0, 0.1, count)
        self.points = np.stack([radius * np.cos(angles), radius * np.sin(angles)], 1)
        print("made", count, "points")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.points[index].astype(np.float32), int(self.labels[index])


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 2))
        self.width = width

    def forward(self, x):
        return self.body(x)

    def predict(self, x):
        return self(x).argmax(1)


class Trainer:
    def __init__(self, model, train_loader, val_loader, device, args):
        self.model = model.to(device)
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.device = device
        self.args = args
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.criterion = nn.CrossEntropyLoss()
        self.best, self.bad = 0.0, 0

    def train_epoch(self, epoch):
        self.model.train()
        correct, seen, total = 0, 0, 0.0
        for x, y in self.train_loader:
            x, y = x.to(self.device), y.to(self.device)
            self.optimizer.zero_grad()
            out = self.model(x)
            loss = self.criterion(out, y)
            loss.backward()
            self.optimizer.step()
            total += loss.item() * x.size(0)
            correct += (out.argmax(1) == y).sum().item()
            seen += y.size(0)
        return total / seen, correct / seen

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        hits, count = 0, 0
        for x, y in self.val_loader:
            hits += (self.model.predict(x.to(self.device)) == y.to(self.device)).sum().item()
            count += len(y)
        return hits / count

    def save(self, path):
        torch.save({"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                    "width": self.model.width}, path)

    def fit(self):
        os.makedirs(self.args.out, exist_ok=True)
        path = os.path.join(self.args.out, "best.pt")
        for epoch in range(self.args.epochs):
            loss, accuracy = self.train_epoch(epoch)
            val = self.validate()
            print(f"epoch {epoch}: loss {loss:.10f} acc {accuracy:.4f} val {val:.4f}")
            if val > self.best:
                self.best, self.bad = val, 0
                self.save(path)
            else:
                self.bad += 1
                if self.bad >= self.args.patience:
                    print("stopping early")
                    break
        state = torch.load(path)
        self.model.load_state_dict(state["model"])
        print(f"best {self.validate():.4f} {state['width']}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--patience", type=int, default=3)
    parser.add_argument("--out", default="out")
    args = parser.parse_args()
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = Rings(320, np.random.default_rng(0))
    train_set, val_set = random_split(data, [256, 64])
    train_loader = DataLoader(train_set, args.batch_size, True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=64)
    trainer = Trainer(Model(24), train_loader, val_loader, device, args)
    trainer.fit()


if __name__ == "__main__":
    main()
