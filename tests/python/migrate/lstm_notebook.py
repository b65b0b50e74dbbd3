# An exported notebook: cells, everything global, train() by closures over globals.

# %%
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import Dataset, DataLoader

np.random.seed(0)
torch.manual_seed(0)
device = 'cuda:0' if torch.cuda.is_available() else 'cpu'
print('device', device)

# %%
series = np.sin(np.arange(120) * 0.3) + 0.1 * np.random.randn(120)
series = series.astype(np.float32)


class Windows(Dataset):
    def __init__(self, data, width):
        self.data, self.width = data, width

    def __len__(self):
        return len(self.data) - self.width

    def __getitem__(self, i):
        return self.data[i:i + self.width, None], self.data[i + self.width]


train_data, test_data = series[:74], series[74:]
train_dl = DataLoader(Windows(train_data, 10), batch_size=8, shuffle=True)
test_dl = DataLoader(Windows(test_data, 10), batch_size=8)

# %%
class Forecaster(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.lstm = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x):
        y, (h, c) = self.lstm(x)
        return self.out(y[:, -1]).squeeze(-1)


net = Forecaster().to(device)
loss_fn = nn.SmoothL1Loss()
opt = torch.optim.Adam(net.parameters(), lr=0.02)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.9)
train_losses, test_losses = [], []


# %%
def train():
    net.train()
    epoch_losses = []
    for xb, yb in train_dl:
        xb, yb = xb.to(device), yb.to(device)
        opt.zero_grad()
        loss = loss_fn(net(xb), yb)
        loss.backward()
        nn.utils.clip_grad_value_(net.parameters(), 0.5)
        opt.step()
        epoch_losses.append(loss.item())
    return np.mean(epoch_losses)


def test():
    net.eval()
    preds, targets = [], []
    with torch.no_grad():
        for xb, yb in test_dl:
            preds.append(net(xb.to(device)).cpu().numpy())
            targets.append(yb.numpy())
    preds, targets = np.concatenate(preds), np.concatenate(targets)
    return float(np.sqrt(np.mean((preds - targets) ** 2)))


# %%
for epoch in range(4):
    tl = train()
    rmse = test()
    sched.step()
    train_losses.append(tl)
    test_losses.append(rmse)
    print(f'Epoch {epoch+1}: train {tl:.8f} rmse {rmse:.8f}')

# %%
torch.save(net, 'net_whole.pt')
np.savez('losses.npz', train=train_losses, test=test_losses)
best = int(np.argmin(test_losses))
print(f'best epoch {best + 1}, {min(test_losses):.8f}')
