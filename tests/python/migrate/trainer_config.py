"""A Trainer with a configuration, callbacks as methods, factories by name, and resume from the last
checkpoint found by glob."""
import glob
import os
import re
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    batch_size: int = 8
    max_epochs: int = 3
    lr: float = 0.05
    optimizer: str = "SGD"
    run_dir: str = "runs"
    hidden: list = field(default_factory=lambda: [16, 16])


def build_model(cfg):
    sizes = [6, *cfg.hidden]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 1))


def build_optimizer(cfg, params):
    return getattr(torch.optim, cfg.optimizer)(params, lr=cfg.lr)


def build_dataloader(dataset, batch_size, train=True):
    return DataLoader(dataset, batch_size=batch_size, shuffle=train, drop_last=train)


class Trainer:
    def __init__(self, cfg, model, train_ds, val_ds):
        self.cfg = cfg
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.model = model.to(self.device)
        self.optimizer = build_optimizer(cfg, self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.7)
        self.train_loader = build_dataloader(train_ds, cfg.batch_size, True)
        self.val_loader = build_dataloader(val_ds, cfg.batch_size, False)
        self.criterion = nn.MSELoss()
        self.epoch = 0
        self.global_step = 0
        self.metrics = {}
        os.makedirs(cfg.run_dir, exist_ok=True)

    def resume(self):
        found = sorted(glob.glob(os.path.join(self.cfg.run_dir, "epoch_*.pt")),
                       key=lambda p: int(re.search(r"(\d+)", os.path.basename(p)).group(1)))
        if not found:
            return
        ckpt = torch.load(found[-1], map_location=self.device)
        self.model.load_state_dict(ckpt["model"])
        self.optimizer.load_state_dict(ckpt["optim"])
        self.epoch = ckpt["epoch"] + 1

    def training_step(self, batch):
        x, y = (t.to(self.device) for t in batch)
        pred = self.model(x)
        loss = self.criterion(pred, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.global_step += 1
        return loss

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for batch in self.train_loader:
            loss = self.training_step(batch)
            total += loss.item()
        return total / len(self.train_loader)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [self.criterion(self.model(x.to(self.device)), y.to(self.device)).item()
                  for x, y in self.val_loader]
        return sum(losses) / len(losses)

    def save(self):
        path = os.path.join(self.cfg.run_dir, f"epoch_{self.epoch}.pt")
        torch.save({"model": self.model.state_dict(), "optim": self.optimizer.state_dict(),
                    "epoch": self.epoch}, path + ".tmp")
        os.replace(path + ".tmp", path)

    def run(self):
        self.resume()
        while self.epoch < self.cfg.max_epochs:
            self.metrics["train"] = self.train_epoch()
            self.metrics["val"] = self.validate()
            self.scheduler.step()
            lr = self.scheduler.get_last_lr()[0]
            print(f"[{self.epoch}] train={self.metrics['train']:.8f} "
                  f"val={self.metrics['val']:.8f} lr={lr:.6f}")
            self.save()
            self.epoch += 1


def main():
    torch.manual_seed(3)
    cfg = Config()
    x = torch.randn(96, 6)
    y = x.pow(2).sum(1, keepdim=True)
    trainer = Trainer(cfg, build_model(cfg), TensorDataset(x[:64], y[:64]),
                      TensorDataset(x[64:], y[64:]))
    trainer.run()
    restored = Trainer(cfg, build_model(cfg), TensorDataset(x[:64], y[:64]),
                       TensorDataset(x[64:], y[64:]))
    restored.resume()
    print(f"restored {restored.epoch} {restored.validate():.8f}")


if __name__ == "__main__":
    main()
