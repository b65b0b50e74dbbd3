"""Everything at module level, as in a notebook."""
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset

BATCH = 8
torch.manual_seed(3)
device = 'cuda:0' if torch.cuda.is_available() else 'cpu'

x = torch.randn(96, 5)
y = x @ torch.randn(5, 1) + 0.1 * torch.randn(96, 1)
trainloader = DataLoader(TensorDataset(x[:64], y[:64]), batch_size=BATCH, shuffle=True, num_workers=0)
testloader = DataLoader(TensorDataset(x[64:], y[64:]), batch_size=32)

net = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1))
net.to(device)
criterion = nn.MSELoss()
optimizer = optim.SGD(net.parameters(), lr=0.05, momentum=0.9)

for epoch in range(4):  # loop over the dataset several times
    running_loss = 0.0
    net.train()
    for i, data in enumerate(trainloader, 0):
        inputs, labels = data[0].to(device), data[1].to(device)
        optimizer.zero_grad()
        loss = criterion(net(inputs), labels)
        loss.backward()
        optimizer.step()
        running_loss += loss.item()
    print(f'epoch {epoch} loss {running_loss / len(trainloader):.10f}')

net.eval()
total = 0.0
with torch.no_grad():
    for inputs, labels in testloader:
        total += criterion(net(inputs.to(device)), labels.to(device)).item()
print(f'test {total / len(testloader):.10f}')
torch.save(net.state_dict(), 'net.pth')
