"""Encoder and decoder with an optimizer each, ReduceLROnPlateau, early stopping by patience, a
history written as JSON and CSV."""
import csv
import json
import sys

import torch
import torch.optim as optim
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

EPOCHS, BATCH, LATENT, PATIENCE = 4, 8, 4, 3
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(12, 16)
        self.mu, self.logvar = nn.Linear(16, LATENT), nn.Linear(16, LATENT)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.mu(h), self.logvar(h)


class Decoder(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(LATENT, 16), nn.ReLU(), nn.Linear(16, 12))


def elbo(recon, x, mu, logvar):
    mse = nn.functional.mse_loss(recon, x, reduction="sum")
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return mse + 0.1 * kl


def make_loaders(batch):
    torch.manual_seed(11)
    full = TensorDataset(torch.randn(96, 12))
    train, val = random_split(full, [64, 32])
    loaders = {}
    for name, part in (("train", train), ("val", val)):
        loaders[name] = DataLoader(part, batch_size=batch, shuffle=(name == "train"))
    return loaders


def main(argv=None):
    loaders = make_loaders(BATCH)
    encoder, decoder = Encoder().to(DEVICE), Decoder().to(DEVICE)
    enc_opt = optim.Adam(encoder.parameters(), lr=1e-2)
    dec_opt = optim.Adam(decoder.parameters(), lr=1e-2)
    plateau = [optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=0)
               for o in (enc_opt, dec_opt)]
    history = []
    best, bad = float("inf"), 0
    for epoch in range(1, EPOCHS + 1):
        encoder.train(), decoder.train()
        train_loss = 0
        for (x,) in loaders["train"]:
            x = x.to(DEVICE)
            enc_opt.zero_grad()
            dec_opt.zero_grad()
            mu, logvar = encoder(x)
            loss = elbo(decoder(mu), x, mu, logvar) / len(x)
            loss.backward()
            enc_opt.step()
            dec_opt.step()
            train_loss += loss.item() * len(x)
        train_loss /= len(loaders["train"].dataset)
        encoder.eval(), decoder.eval()
        with torch.no_grad():
            val_loss = 0
            for (x,) in loaders["val"]:
                mu, logvar = encoder(x.to(DEVICE))
                val_loss += elbo(decoder(mu), x.to(DEVICE), mu, logvar).item()
        val_loss /= len(loaders["val"].dataset)
        for scheduler in plateau:
            scheduler.step(val_loss)
        history.append({"epoch": epoch, "train": train_loss, "val": val_loss})
        print("epoch {:d} train {:.8f} val {:.8f}".format(epoch, train_loss, val_loss))
        if val_loss < best:
            best, bad = val_loss, 0
            torch.save({"enc": encoder.state_dict(), "dec": decoder.state_dict()}, "vae.pt")
        else:
            bad += 1
            if bad > PATIENCE:
                print("stopping early")
                break
    with open("history.json", "w") as f:
        json.dump(history, f)
    with open("history.csv", "w", newline="") as f:
        writer = csv.DictWriter(f, fieldnames=["epoch", "train", "val"])
        writer.writeheader()
        writer.writerows(history)
    state = torch.load("vae.pt", map_location=DEVICE)
    encoder.load_state_dict(state["enc"])
    decoder.load_state_dict(state["dec"])
    with torch.no_grad():
        x = next(iter(loaders["val"]))[0][:8].to(DEVICE)
        print("final {:.8f}".format(decoder(encoder(x)[0]).abs().sum().item()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
