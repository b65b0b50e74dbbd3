"""Early stopping with a copy of the best weights, ReduceLROnPlateau, logging and tqdm."""
import copy
import logging
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm

logger = logging.getLogger(__name__)
logger.addHandler(logging.StreamHandler(sys.stdout))
logger.setLevel(logging.INFO)
CONFIG = {"batch": 8, "epochs": 6}


class EarlyStopping:
    def __init__(self, patience=2):
        self.patience, self.best, self.count = patience, float("inf"), 0

    def step(self, loss):
        if loss < self.best:
            self.best, self.count = loss, 0
            return False
        self.count += 1
        return self.count >= self.patience


def get_data():
    g = torch.Generator().manual_seed(0)
    x = torch.rand(160, 1, generator=g) * 4 - 2
    y = x ** 2 + 0.05 * torch.randn(160, 1, generator=g)
    train, val = TensorDataset(x[:128], y[:128]), TensorDataset(x[128:], y[128:])
    return (DataLoader(train, batch_size=CONFIG["batch"], shuffle=True),
            DataLoader(val, batch_size=32, shuffle=False))


def train_one_epoch(net, loader, criterion, optimizer):
    net.train()
    losses = 0.0
    bar = tqdm(loader)
    for x, y in bar:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        losses += loss.item() * len(x)
        bar.set_postfix(loss=loss.item())
    return losses / len(loader.dataset)


def evaluate(net, loader, criterion):
    net.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += criterion(net(x), y).item() * len(x)
    return total / len(loader.dataset)


def main():
    torch.manual_seed(1)
    train_loader, val_loader = get_data()
    net = nn.Sequential(nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
    criterion = nn.MSELoss()
    stopper = EarlyStopping()
    best = copy.deepcopy(net.state_dict())
    for epoch in range(CONFIG["epochs"]):
        train_loss = train_one_epoch(net, train_loader, criterion, optimizer)
        val_loss = evaluate(net, val_loader, criterion)
        scheduler.step(val_loss)
        logger.info("epoch %d train %.10f val %.10f", epoch, train_loss, val_loss)
        if val_loss <= stopper.best:
            best = copy.deepcopy(net.state_dict())
        if stopper.step(val_loss):
            logger.info("stopped")
            break
    net.load_state_dict(best)
    logger.info("best %.10f", evaluate(net, val_loader, criterion))


if __name__ == "__main__":
    main()
