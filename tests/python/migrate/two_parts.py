"""An encoder and a decoder with one optimizer, and a frozen teacher."""
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH = 8


def train_step(encoder, decoder, teacher, batch, optimizer):
    (x,) = batch
    with torch.no_grad():
        target = teacher(x)
    code = encoder(x)
    loss = nn.functional.mse_loss(decoder(code), target) + 1e-3 * code.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


if __name__ == "__main__":
    torch.manual_seed(4)
    device = torch.device("cpu")
    teacher = nn.Linear(6, 6).to(device).eval()
    for p in teacher.parameters():
        p.requires_grad = False
    encoder = nn.Sequential(nn.Linear(6, 3), nn.Tanh()).to(device)
    decoder = nn.Linear(3, 6).to(device)
    optimizer = torch.optim.Adam(itertools.chain(encoder.parameters(), decoder.parameters()), lr=0.01)
    data = TensorDataset(torch.randn(128, 6))
    loader = DataLoader(data, batch_size=BATCH, shuffle=True)
    for epoch in range(1, 4):
        mean = 0.0
        for batch in loader:
            loss = train_step(encoder, decoder, teacher, batch, optimizer)
            mean += float(loss)
        mean /= len(loader)
        print(f"epoch {epoch:2d} | loss {mean:.10f}")
    torch.save({"encoder": encoder.state_dict(), "decoder": decoder.state_dict()}, "parts.pt")
