"""argparse with many options, autocast(bfloat16), a loss scaler object, meters of its own, cycle of
learning rates per iteration, a summary CSV that grows."""
import argparse
import csv
import os
import time
from collections import OrderedDict
from functools import partial

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--log-interval", type=int, default=4)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--output", default="output")
parser.add_argument("--gpu", type=int, default=0)


class AverageMeter:
    def __init__(self):
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    _, pred = output.topk(max(topk), 1, True, True)
    correct = pred.t().eq(target.reshape(1, -1).expand_as(pred.t()))
    return [correct[:k].reshape(-1).float().sum(0) * 100.0 / target.size(0) for k in topk]


def update_summary(epoch, train_metrics, eval_metrics, filename, write_header=False):
    rowd = OrderedDict(epoch=epoch)
    rowd.update([("train_" + k, v) for k, v in train_metrics.items()])
    rowd.update([("eval_" + k, v) for k, v in eval_metrics.items()])
    with open(filename, mode="a") as cf:
        dw = csv.DictWriter(cf, fieldnames=rowd.keys())
        if write_header:
            dw.writeheader()
        dw.writerow(rowd)


def train_one_epoch(epoch, model, loader, optimizer, loss_fn, args, lr_scheduler=None,
                    amp_autocast=None):
    losses_m = AverageMeter()
    batch_time_m = AverageMeter()
    model.train()
    end = time.time()
    num_updates = epoch * len(loader)
    last_idx = len(loader) - 1
    for batch_idx, (input, target) in enumerate(loader):
        last_batch = batch_idx == last_idx
        with amp_autocast():
            output = model(input)
            loss = loss_fn(output, target)
        losses_m.update(loss.item(), input.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        num_updates += 1
        batch_time_m.update(time.time() - end)
        if last_batch or batch_idx % args.log_interval == 0:
            print("Train: {} [{:>4d}/{}]  Loss: {loss.val:.7f} ({loss.avg:.7f})".format(
                epoch, batch_idx, len(loader), loss=losses_m))
        if lr_scheduler is not None:
            lr_scheduler.step()
        end = time.time()
    return OrderedDict([("loss", losses_m.avg)])


def validate(model, loader, loss_fn):
    losses_m, top1_m = AverageMeter(), AverageMeter()
    model.eval()
    with torch.no_grad():
        for batch_idx, (input, target) in enumerate(loader):
            output = model(input)
            loss = loss_fn(output, target)
            acc1, _ = accuracy(output, target, topk=(1, 2))
            losses_m.update(loss.item(), input.size(0))
            top1_m.update(acc1.item(), output.size(0))
    return OrderedDict([("loss", losses_m.avg), ("top1", top1_m.avg)])


def main():
    args = parser.parse_args()
    if torch.cuda.is_available():
        torch.cuda.set_device(args.gpu)
    torch.manual_seed(42)
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 4))
    if torch.cuda.is_available():
        model = model.cuda(args.gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    amp_autocast = partial(torch.autocast, "cpu", dtype=torch.bfloat16, enabled=args.amp)
    x = torch.randn(96, 1, 4, 4)
    y = x.flatten(1)[:, :4].argmax(1)
    loader_train = DataLoader(TensorDataset(x[:64], y[:64]), args.batch_size, True)
    loader_eval = DataLoader(TensorDataset(x[64:], y[64:]), args.batch_size, False)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=40)
    os.makedirs(args.output, exist_ok=True)
    best_metric = None
    for epoch in range(args.epochs):
        train_metrics = train_one_epoch(epoch, model, loader_train, optimizer, nn.CrossEntropyLoss(),
                                        args, scheduler, amp_autocast)
        eval_metrics = validate(model, loader_eval, nn.CrossEntropyLoss())
        print("epoch {} eval loss {:.7f} top1 {:.3f}".format(epoch, *eval_metrics.values()))
        update_summary(epoch, train_metrics, eval_metrics, os.path.join(args.output, "summary.csv"),
                       write_header=best_metric is None)
        if best_metric is None or eval_metrics["top1"] > best_metric:
            best_metric = eval_metrics["top1"]
            torch.save({"state_dict": model.state_dict(), "metric": best_metric},
                       os.path.join(args.output, "model_best.pth.tar"))
    print("*** Best metric: {0:.4f}".format(best_metric))


if __name__ == "__main__":
    main()
