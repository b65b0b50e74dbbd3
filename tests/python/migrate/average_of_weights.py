"""Two-part function style: get_args/get_loaders/train_one_epoch/validate, cosine with warmup, EMA,
gradient clipping, label smoothing, best checkpoint and --resume."""
import argparse
import copy
import math
import os

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--output", default="out")
    p.add_argument("--resume", default="")
    return p.parse_args()


def get_loaders(args):
    g = torch.Generator().manual_seed(7)
    x = torch.randn(96, 10, generator=g)
    y = (x[:, :3].sum(1) > 0).long() + (x[:, 3] > 0.5).long()
    train_ds = TensorDataset(x[:64], y[:64])
    val_ds = TensorDataset(x[64:], y[64:])
    return (DataLoader(train_ds, batch_size=args.batch_size, shuffle=True),
            DataLoader(val_ds, batch_size=args.batch_size))


class ModelEma:
    def __init__(self, model, decay=0.9):
        self.module = copy.deepcopy(model).eval()
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for e, m in zip(self.module.state_dict().values(), model.state_dict().values()):
            e.copy_(self.decay * e + (1 - self.decay) * m)


def train_one_epoch(model, ema, criterion, loader, optimizer, scheduler, device, epoch, clip=1.0):
    model.train()
    running, seen, correct = 0.0, 0, 0
    for step, (inputs, targets) in enumerate(loader):
        inputs = inputs.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        outputs = model(inputs)
        loss = criterion(outputs, targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        scheduler.step()
        ema.update(model)
        running += loss.item() * inputs.size(0)
        correct += (outputs.argmax(1) == targets).sum().item()
        seen += inputs.size(0)
    return running / seen, 100.0 * correct / seen


@torch.inference_mode()
def evaluate(model, loader, device):
    model.eval()
    total, n, right = 0.0, 0, 0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        out = model(x)
        total += F.cross_entropy(out, y, reduction="sum").item()
        right += (out.argmax(dim=-1) == y).sum().item()
        n += y.numel()
    return total / n, right / n


def main():
    args = get_args()
    torch.manual_seed(0)
    device = torch.device(args.device)
    os.makedirs(args.output, exist_ok=True)
    train_loader, val_loader = get_loaders(args)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3)).to(device)
    ema = ModelEma(model)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    total = args.epochs * 4
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: 0.5 * (1 + math.cos(math.pi * min(s, total) / total)))
    start_epoch, best = 0, 0.0
    if args.resume:
        ckpt = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(ckpt["model"])
        optimizer.load_state_dict(ckpt["optimizer"])
        start_epoch = ckpt["epoch"] + 1
    for epoch in range(start_epoch, args.epochs):
        loss, acc = train_one_epoch(model, ema, criterion, train_loader, optimizer, scheduler,
                                    device, epoch)
        val_loss, val_acc = evaluate(model, val_loader, device)
        ema_loss, _ = evaluate(ema.module, val_loader, device)
        print(f"epoch {epoch}: loss {loss:.10f} acc {acc:.4f} val {val_loss:.10f} {val_acc:.4f} "
              f"ema {ema_loss:.10f}")
        state = {"model": model.state_dict(), "ema": ema.module.state_dict(),
                 "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save(state, os.path.join(args.output, "last.pt"))
        if val_acc >= best:
            best = val_acc
            torch.save(state, os.path.join(args.output, "best.pt"))
    print(f"best {best:.4f}")


if __name__ == "__main__":
    main()
