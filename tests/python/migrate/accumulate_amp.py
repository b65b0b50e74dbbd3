"""Mixed precision with accumulated gradients."""
import argparse
import json

import torch
from torch import nn
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--accumulate", type=int, default=2)
args = parser.parse_args()


def build(device):
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 3)).to(device)
    return model


def main(args):
    torch.manual_seed(5)
    use_amp = torch.cuda.is_available()
    device = "cuda" if use_amp else "cpu"
    x = torch.randn(64, 8)
    data = TensorDataset(x, (x.sum(1) > 0).long() + (x[:, 0] > 1).long())
    loader = DataLoader(data, batch_size=args.batch, shuffle=True, drop_last=True)
    model = build(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    scaler = GradScaler(device, enabled=use_amp)
    history = []
    for epoch in range(3):
        correct = total = 0
        epoch_loss = 0.0
        optimizer.zero_grad(set_to_none=True)
        for step, (inputs, targets) in enumerate(loader):
            inputs, targets = inputs.to(device), targets.to(device)
            with autocast(device_type=device, dtype=torch.bfloat16, enabled=use_amp):
                logits = model(inputs)
                loss = nn.functional.cross_entropy(logits, targets) / args.accumulate
            scaler.scale(loss).backward()
            if (step + 1) % args.accumulate == 0:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
            epoch_loss += loss.item() * args.accumulate * inputs.size(0)
            correct += (logits.argmax(1) == targets).sum().item()
            total += targets.size(0)
        history.append({"loss": epoch_loss / len(data), "accuracy": correct / total})
        print(f"epoch {epoch} loss {history[-1]['loss']:.10f} acc {history[-1]['accuracy']:.4f}")
    with open("history.json", "w") as file:
        json.dump(history, file)


main(args)
