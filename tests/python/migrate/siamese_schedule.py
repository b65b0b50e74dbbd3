"""Metric learning: two losses, a learnable centre with its own optimizer, MultiStepLR and a manual
warm-up, torchmetrics-like accumulators kept as tensors, a lambda of logging, resume with RNG state."""
import os
from typing import Dict, Tuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import MultiStepLR
from torch.utils.data import DataLoader, TensorDataset

CFG = {"epochs": 3, "batch": 8, "lr": 0.1, "ckpt": "state.pth"}


class CenterLoss(nn.Module):
    def __init__(self, classes: int, width: int):
        super().__init__()
        self.centers = nn.Parameter(torch.zeros(classes, width))

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        return (features - self.centers[labels]).pow(2).sum(1).mean()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 10), nn.Tanh())
        self.classifier = nn.Linear(10, 3)

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        f = self.features(x)
        return f, self.classifier(f)


def loaders(batch: int) -> Dict[str, DataLoader]:
    x = torch.randn(72, 6)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return {"train": DataLoader(TensorDataset(x[:48], y[:48]), batch_size=batch, shuffle=True),
            "test": DataLoader(TensorDataset(x[48:], y[48:]), batch_size=batch)}


def run() -> None:
    torch.manual_seed(17)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dl = loaders(CFG["batch"])
    net = Net().to(device)
    center = CenterLoss(3, 10).to(device)
    xent = nn.CrossEntropyLoss()
    opt_net = torch.optim.SGD(net.parameters(), lr=CFG["lr"])
    opt_center = torch.optim.SGD(center.parameters(), lr=0.5)
    sched = MultiStepLR(opt_net, [2], gamma=0.1)
    start = 0
    if os.path.exists(CFG["ckpt"]):
        saved = torch.load(CFG["ckpt"], weights_only=False)
        net.load_state_dict(saved["net"])
        center.load_state_dict(saved["center"])
        torch.set_rng_state(saved["rng"])
        start = saved["epoch"]
    for epoch in range(start, CFG["epochs"]):
        net.train()
        loss_sum = torch.zeros((), device=device)
        correct = torch.zeros((), dtype=torch.long, device=device)
        count = 0
        for i, (x, y) in enumerate(dl["train"]):
            if epoch == 0:
                for group in opt_net.param_groups:
                    group["lr"] = CFG["lr"] * (i + 1) / len(dl["train"])
            x, y = x.to(device), y.to(device)
            f, logits = net(x)
            loss = xent(logits, y) + 0.01 * center(f, y)
            opt_net.zero_grad()
            opt_center.zero_grad()
            loss.backward()
            for p in center.parameters():
                p.grad.data *= 1.0 / 0.01
            opt_net.step()
            opt_center.step()
            loss_sum += loss.detach() * y.size(0)
            correct += (logits.argmax(1) == y).sum()
            count += y.size(0)
        sched.step()
        net.eval()
        with torch.no_grad():
            hits = torch.cat([net(x.to(device))[1].argmax(1).cpu() == y for x, y in dl["test"]])
        print("epoch %d loss %.8f acc %.4f test %.4f" % (
            epoch, loss_sum / count, correct.float() / count, hits.float().mean()))
        torch.save({"net": net.state_dict(), "center": center.state_dict(),
                    "rng": torch.get_rng_state(), "epoch": epoch + 1}, CFG["ckpt"])


if __name__ == "__main__":
    run()
