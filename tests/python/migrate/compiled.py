"""torch.compile, a schedule by steps, and a custom collate function."""
import sys

import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader

BATCH, EPOCHS = 8, 3


def collate(rows):
    return torch.stack([r[0] for r in rows]), torch.stack([r[1] for r in rows])


def make_loader(rows, train):
    return DataLoader(rows, batch_size=BATCH, shuffle=train, collate_fn=collate)


def run_epoch(model, loader, optimizer=None, scheduler=None):
    total, batches = 0.0, 0
    for x, y in loader:
        loss = nn.functional.l1_loss(model(x), y)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
        total += loss.item()
        batches += 1
    return total / batches


def main() -> int:
    torch.manual_seed(2)
    rows = [(torch.randn(3), torch.randn(1)) for _ in range(64)]
    model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
    model = torch.compile(model, backend="eager")
    train_loader = make_loader(rows, True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = OneCycleLR(optimizer, max_lr=0.1, steps_per_epoch=len(train_loader), epochs=EPOCHS)
    for epoch in range(EPOCHS):
        loss = run_epoch(model, train_loader, optimizer, scheduler)
        print(f"{epoch} {loss:.10f} {scheduler.get_last_lr()[0]:.8f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
