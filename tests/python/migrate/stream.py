"""A stream of samples: IterableDataset."""
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

BATCH = 8


class Readings(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        for i in range(self.count):
            t = torch.tensor([i / self.count])
            yield torch.cat([t, t * t]), torch.sin(6 * t)


def main():
    torch.manual_seed(0)
    loader = DataLoader(Readings(128), batch_size=BATCH)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.AdamW(model.parameters(), lr=0.01)
    for epoch in range(3):
        losses = []
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(loss.item())
        print("epoch %d mean loss %.10f last %.10f" % (epoch, sum(losses) / len(losses), losses[-1]))


if __name__ == "__main__":
    main()
