"""A U-Net repository's train.py: train_model(model, device, ...), tqdm with set_postfix, logging,
SGD with momentum, a confusion matrix in evaluation, pathlib, exceptions on interrupt."""
import argparse
import logging
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset, random_split
from tqdm import tqdm

dir_checkpoint = Path("checkpoints")


class Shapes(Dataset):
    def __init__(self, n=40):
        g = torch.Generator().manual_seed(5)
        self.images = torch.rand(n, 1, 8, 8, generator=g)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, idx):
        image = self.images[idx]
        return {"image": image, "mask": (image[0] > 0.5).long()}


class SmallUNet(nn.Module):
    def __init__(self, n_channels, n_classes):
        super().__init__()
        self.n_channels = n_channels
        self.n_classes = n_classes
        self.down = nn.Conv2d(n_channels, 4, 3, padding=1)
        self.up = nn.Conv2d(4, n_classes, 1)

    def forward(self, x):
        return self.up(F.relu(self.down(x)))


def dice_loss(probs, target, epsilon=1e-6):
    inter = 2 * (probs * target).sum(dim=(-1, -2))
    sets = probs.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    return 1 - ((inter + epsilon) / (sets + epsilon)).mean()


@torch.inference_mode()
def evaluate(net, dataloader, device):
    net.eval()
    num_val_batches = len(dataloader)
    dice_score = 0
    for batch in tqdm(dataloader, total=num_val_batches, desc="Validation round", unit="batch",
                      leave=False, disable=True):
        image, mask_true = batch["image"].to(device), batch["mask"].to(device)
        mask_pred = net(image).argmax(dim=1)
        dice_score += 1 - dice_loss(mask_pred.float(), mask_true.float())
    net.train()
    return dice_score / max(num_val_batches, 1)


def train_model(model, device, epochs=2, batch_size=4, learning_rate=1e-2, val_percent=0.2,
                save_checkpoint=True):
    dataset = Shapes()
    n_val = int(len(dataset) * val_percent)
    n_train = len(dataset) - n_val
    train_set, val_set = random_split(dataset, [n_train, n_val],
                                      generator=torch.Generator().manual_seed(0))
    loader_args = dict(batch_size=batch_size, num_workers=0, pin_memory=False)
    train_loader = DataLoader(train_set, shuffle=True, **loader_args)
    val_loader = DataLoader(val_set, shuffle=False, drop_last=True, **loader_args)
    logging.info(f"Starting training: {epochs} epochs, {n_train} images, {model.n_classes} classes")
    optimizer = optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=50)
    criterion = nn.CrossEntropyLoss() if model.n_classes > 1 else nn.BCEWithLogitsLoss()
    global_step = 0
    for epoch in range(1, epochs + 1):
        model.train()
        epoch_loss = 0
        with tqdm(total=n_train, desc=f"Epoch {epoch}/{epochs}", unit="img", disable=True) as pbar:
            for batch in train_loader:
                images, true_masks = batch["image"], batch["mask"]
                assert images.shape[1] == model.n_channels, "wrong channels"
                images = images.to(device=device, dtype=torch.float32)
                true_masks = true_masks.to(device=device, dtype=torch.long)
                masks_pred = model(images)
                loss = criterion(masks_pred, true_masks)
                loss += dice_loss(F.softmax(masks_pred, dim=1).float(),
                                  F.one_hot(true_masks, model.n_classes).permute(0, 3, 1, 2).float())
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                pbar.update(images.shape[0])
                global_step += 1
                epoch_loss += loss.item()
                pbar.set_postfix(**{"loss (batch)": loss.item()})
                division_step = n_train // (2 * batch_size)
                if division_step > 0 and global_step % division_step == 0:
                    val_score = evaluate(model, val_loader, device)
                    scheduler.step(val_score)
                    logging.info("Validation Dice score: {}".format(val_score))
        print(f"epoch {epoch} loss {epoch_loss / len(train_loader):.8f} dice "
              f"{evaluate(model, val_loader, device):.8f}")
        if save_checkpoint:
            Path(dir_checkpoint).mkdir(parents=True, exist_ok=True)
            state_dict = model.state_dict()
            torch.save(state_dict, str(dir_checkpoint / "checkpoint_epoch{}.pth".format(epoch)))
            logging.info(f"Checkpoint {epoch} saved!")


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", "-e", type=int, default=2)
    parser.add_argument("--batch-size", "-b", dest="batch_size", type=int, default=4)
    parser.add_argument("--load", "-f", type=str, default=False)
    return parser.parse_args()


if __name__ == "__main__":
    args = get_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = SmallUNet(n_channels=1, n_classes=2)
    model = model.to(memory_format=torch.channels_last)
    if args.load:
        state_dict = torch.load(args.load, map_location=device)
        model.load_state_dict(state_dict)
    model.to(device=device)
    try:
        train_model(model=model, epochs=args.epochs, batch_size=args.batch_size, device=device)
    except torch.cuda.OutOfMemoryError:
        logging.error("Detected OutOfMemoryError!")
        torch.cuda.empty_cache()
        raise
