"""Networks and optimizers in the attributes of an object with a step of its own."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH = 4


class Pairs(Dataset):
    def __init__(self, count):
        g = torch.Generator().manual_seed(8)
        self.a = torch.randn(count, 4, generator=g)
        self.b = torch.tanh(self.a @ torch.randn(4, 4, generator=g))

    def __len__(self):
        return len(self.a)

    def __getitem__(self, i):
        return {"A": self.a[i], "B": self.b[i]}


class Translation:
    def __init__(self, device):
        self.device = device
        self.netG = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
        self.netD = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)).to(device)
        self.optimizers = []
        self.optimizer_G = torch.optim.SGD(self.netG.parameters(), lr=0.05)
        self.optimizer_D = torch.optim.SGD(self.netD.parameters(), lr=0.05)
        self.optimizers += [self.optimizer_G, self.optimizer_D]

    def set_input(self, batch):
        self.real_A = batch["A"].to(self.device)
        self.real_B = batch["B"].to(self.device)

    def forward(self):
        self.fake_B = self.netG(self.real_A)

    def backward_D(self):
        fake = self.netD(torch.cat([self.real_A, self.fake_B.detach()], 1))
        self.loss_D = (fake ** 2).mean()
        self.loss_D.backward()

    def backward_G(self):
        fake = self.netD(torch.cat([self.real_A, self.fake_B], 1))
        self.loss_G = ((fake - 1) ** 2).mean() + (self.fake_B - self.real_B).abs().mean()
        self.loss_G.backward()

    def optimize_parameters(self):
        self.forward()
        self.optimizer_D.zero_grad()
        self.backward_D()
        self.optimizer_D.step()
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()

    def current_losses(self):
        return {"G": float(self.loss_G), "D": float(self.loss_D)}

    def save_networks(self, epoch):
        for name in ["G", "D"]:
            net = getattr(self, "net" + name)
            torch.save(net.state_dict(), f"{epoch}_{name}.pth")


if __name__ == "__main__":
    torch.manual_seed(0)
    dataset = DataLoader(Pairs(32), batch_size=BATCH, shuffle=True)
    model = Translation(torch.device("cpu"))
    total_iters = 0
    for epoch in range(1, 4):
        for i, data in enumerate(dataset):
            total_iters += 1
            model.set_input(data)
            model.optimize_parameters()
        model.save_networks(epoch)
        weight = model.netG[0].weight.abs().sum()
        print(f"epoch {epoch} weight {weight.item():.10f} iters {total_iters}.0")
