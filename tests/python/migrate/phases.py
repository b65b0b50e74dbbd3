"""Loaders in a dictionary, and training and validation in one loop, as in tutorials."""
import copy
import os
import time
from tempfile import TemporaryDirectory

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler

BATCH = 8
torch.manual_seed(6)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

points = torch.randn(96, 4)
classes = (points.sum(1) > 0).long()
parts = {'train': torch.utils.data.TensorDataset(points[:64], classes[:64]),
         'val': torch.utils.data.TensorDataset(points[64:], classes[64:])}
dataloaders = {x: torch.utils.data.DataLoader(parts[x], batch_size=BATCH, shuffle=True)
               for x in ['train', 'val']}
dataset_sizes = {x: len(parts[x]) for x in ['train', 'val']}


def train_model(model, criterion, optimizer, scheduler, num_epochs=3):
    since = time.time()
    with TemporaryDirectory() as tempdir:
        best_path = os.path.join(tempdir, 'best.pt')
        torch.save(model.state_dict(), best_path)
        best_acc = 0.0
        for epoch in range(num_epochs):
            for phase in ['train', 'val']:
                if phase == 'train':
                    model.train()
                else:
                    model.eval()
                running_loss = 0.0
                running_corrects = 0
                for inputs, labels in dataloaders[phase]:
                    inputs = inputs.to(device)
                    labels = labels.to(device)
                    optimizer.zero_grad()
                    with torch.set_grad_enabled(phase == 'train'):
                        outputs = model(inputs)
                        _, preds = torch.max(outputs, 1)
                        loss = criterion(outputs, labels)
                        if phase == 'train':
                            loss.backward()
                            optimizer.step()
                    running_loss += loss.item() * inputs.size(0)
                    running_corrects += torch.sum(preds == labels.data)
                if phase == 'train':
                    scheduler.step()
                epoch_loss = running_loss / dataset_sizes[phase]
                epoch_acc = running_corrects.double() / dataset_sizes[phase]
                print(f'{epoch} {phase} Loss: {epoch_loss:.10f} Acc: {epoch_acc:.4f}')
                if phase == 'val' and epoch_acc > best_acc:
                    best_acc = epoch_acc
                    torch.save(model.state_dict(), best_path)
        print(f'Best val Acc: {best_acc:4f}')
        model.load_state_dict(torch.load(best_path, weights_only=True))
    return model


net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(device)
sgd = optim.SGD(net.parameters(), lr=0.1)
step_lr = lr_scheduler.StepLR(sgd, step_size=2, gamma=0.1)
net = train_model(net, nn.CrossEntropyLoss(), sgd, step_lr)
torch.save(copy.deepcopy(net.state_dict()), 'net.pt')
