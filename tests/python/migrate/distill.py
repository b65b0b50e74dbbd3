"""Teacher and student: the teacher is frozen, only the student's head and adapters are trained;
itertools.cycle over the loader, steps instead of epochs, logging every few steps of a window."""
import argparse
import itertools
import logging
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

logger = logging.getLogger(__name__)


def mlp(width):
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 5))


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = mlp(12)
        self.head = nn.Linear(5, 5)
        for p in self.backbone[0].parameters():
            p.requires_grad = False

    def forward(self, x):
        return self.head(self.backbone(x))


def infinite(loader):
    while True:
        for batch in loader:
            yield batch


def train(args, device):
    torch.manual_seed(args.seed)
    x = torch.randn(80, 8)
    dataset = TensorDataset(x, x[:, :5].argmax(1))
    train_loader = DataLoader(Subset(dataset, range(64)), batch_size=args.batch, shuffle=True,
                              num_workers=0)
    val_loader = DataLoader(Subset(dataset, range(64, 80)), batch_size=args.batch)
    teacher = mlp(32).to(device).eval()
    teacher.requires_grad_(False)
    student = Student().to(device)
    trainable = filter(lambda p: p.requires_grad, student.parameters())
    optimizer = torch.optim.AdamW(trainable, lr=args.lr)
    data = infinite(train_loader)
    window = 0.0
    for step in range(1, args.steps + 1):
        inputs, labels = next(data)
        inputs, labels = inputs.to(device), labels.to(device)
        with torch.no_grad():
            soft = F.softmax(teacher(inputs) / 2.0, dim=-1)
        logits = student(inputs)
        loss = F.cross_entropy(logits, labels) + F.kl_div(
            F.log_softmax(logits / 2.0, dim=-1), soft, reduction="batchmean")
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        window += loss.item()
        if step % args.every == 0:
            print(f"step {step} loss {window / args.every:.8f}")
            window = 0.0
            student.eval()
            with torch.no_grad():
                hits = sum((student(a.to(device)).argmax(1) == b.to(device)).sum().item()
                           for a, b in val_loader)
            student.train()
            print(f"step {step} accuracy {hits / len(val_loader.dataset):.4f}")
            torch.save(student.state_dict(), os.path.join(args.out, f"student-{step}.pt"))
    return student


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", default=".")
    args = parser.parse_args()
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    model = train(args, device)
    total = sum(p.numel() for p in model.parameters() if p.requires_grad)
    print(f"trained {total} parameters, norm "
          f"{sum(p.double().norm().item() for p in model.parameters()):.8f}")
