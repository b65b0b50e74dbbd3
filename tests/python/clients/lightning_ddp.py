"""Lightning takes the name of a backend. It needs nothing else."""

import lightning
import stretto.torch
import torch
import torch.distributed as dist
from data import line, report
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

LOSSES = []


class Model(lightning.LightningModule):

  def __init__(self):
    super().__init__()
    self.net = torch.nn.Linear(8, 1)

  def training_step(self, batch, index):
    del index
    loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
    self.log("loss", loss, sync_dist=True)
    LOSSES.append(loss.item())
    return loss

  def configure_optimizers(self):
    return torch.optim.SGD(self.parameters(), lr=0.05)


trainer = lightning.Trainer(
    accelerator="cpu", devices=2, strategy=DDPStrategy(process_group_backend="stretto"),
    max_epochs=6, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False)
trainer.fit(Model(), DataLoader(TensorDataset(*line()), batch_size=8))
report(trainer.global_rank, dist.get_backend(), LOSSES, stretto.torch.statistics()["operations"])
