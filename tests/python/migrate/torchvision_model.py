"""A pretrained model of torchvision is tuned on pictures that are downloaded."""
import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms


def main():
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    to_tensor = transforms.Compose([transforms.Resize(64), transforms.ToTensor()])
    train_set = torchvision.datasets.CIFAR10("data", train=True, download=True, transform=to_tensor)
    test_set = torchvision.datasets.CIFAR10("data", train=False, download=True, transform=to_tensor)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=2)
    test_loader = DataLoader(test_set, batch_size=64, num_workers=2)
    model = torchvision.models.resnet18(weights="DEFAULT")
    for parameter in model.parameters():
        parameter.requires_grad = False
    model.fc = torch.nn.Linear(model.fc.in_features, 10)
    model = model.to(device)
    optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.01)
    best = 0.0
    for epoch in range(2):
        model.train()
        for images, labels in train_loader:
            loss = torch.nn.functional.cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for images, labels in test_loader:
                right += (model(images.to(device)).argmax(1).cpu() == labels).sum().item()
        accuracy = right / len(test_set)
        print("accuracy", accuracy)
        if accuracy > best:
            best = accuracy
            torch.save(model, "best.pt")


if __name__ == "__main__":
    main()
