"""The Trainer of Transformers, which refuses backends that it does not know. With an argument, one
line of this script replaces gloo; without one, stretto run does."""

import sys
import tempfile

import stretto.torch

if len(sys.argv) > 1:
  stretto.torch.replace_backend()

import torch
import torch.distributed as dist
from data import line, report
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments


class Config(PretrainedConfig):
  model_type = "line"


class Model(PreTrainedModel):
  config_class = Config

  def __init__(self, config):
    super().__init__(config)
    self.net = torch.nn.Linear(8, 1)
    self.post_init()

  def _init_weights(self, module):
    pass

  def forward(self, x=None, labels=None):
    y = self.net(x)
    return {"loss": torch.nn.functional.mse_loss(y, labels), "logits": y}


rows = [{"x": x, "labels": y} for x, y in zip(*line())]
with tempfile.TemporaryDirectory() as folder:
  arguments = TrainingArguments(
      output_dir=folder, use_cpu=True, ddp_backend="gloo", num_train_epochs=6,
      per_device_train_batch_size=8, learning_rate=0.05, report_to=[], logging_steps=1,
      eval_strategy="epoch", save_strategy="no", disable_tqdm=True)
  trainer = Trainer(model=Model(Config()), args=arguments, train_dataset=rows, eval_dataset=rows)
  trainer.train()
  losses = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
  report(arguments.process_index, dist.get_backend(), losses,
         stretto.torch.statistics()["operations"])
