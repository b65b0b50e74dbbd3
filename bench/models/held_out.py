"""Architectures that Stretto was not made for: other people's code, from torchvision and timm.

`HELD_OUT` is the list. No kernel choice, fitted formula or shipped tuning cache has seen these
models.
"""

from __future__ import annotations

import importlib

from bench.models.model import Model, image

LOGITS, MASK = ("logits",), ("mask",)


def row(name: str, library: str, size: int, outputs: tuple[str, ...], parameters: int, gmac: float,
        batch_norm: str, checksum: str) -> Model:
  # Statistics depend on the size, because zeros around the map enter them, but double precision
  # takes minutes for the largest inputs.
  return Model(name, library, image(size), outputs, parameters, gmac, batch_norm, checksum,
               calibration=min(size, 299))


HELD_OUT = [
    row("vgg16", "torchvision", 224, LOGITS, 138_357_544, 15.47, "none", "88482aaf"),
    row("densenet121", "torchvision", 224, LOGITS, 7_978_856, 2.83, "kept", "8846954c"),
    row("inception_v3", "torchvision", 299, LOGITS, 23_834_568, 5.71, "folded", "6293b3cb"),
    row("googlenet", "torchvision", 224, LOGITS, 6_624_904, 1.50, "kept", "5f21ae5a"),
    row("squeezenet1_1", "torchvision", 224, LOGITS, 1_235_496, 0.35, "none", "7439361e"),
    row("shufflenet_v2_x1_0", "torchvision", 224, LOGITS, 2_278_604, 0.14, "folded", "2edc3cf1"),
    row("mobilenet_v3_large", "torchvision", 224, LOGITS, 5_483_032, 0.22, "kept", "04bab2ad"),
    row("mnasnet1_0", "torchvision", 224, LOGITS, 4_383_312, 0.31, "folded", "923a81f9"),
    row("regnet_x_1_6gf", "torchvision", 224, LOGITS, 9_190_136, 1.60, "kept", "01162e78"),
    row("regnet_y_1_6gf", "torchvision", 224, LOGITS, 11_202_430, 1.61, "folded", "49fad813"),
    row("wide_resnet50_2", "torchvision", 224, LOGITS, 68_883_240, 11.40, "folded", "f1a42e86"),
    row("efficientnet_v2_s", "torchvision", 384, LOGITS, 21_458_488, 8.37, "kept", "37225bbe"),
    row("fcn_resnet50", "torchvision", 256, MASK, 32_957_013, 34.59, "kept", "24e22610"),
    row("convnext_tiny", "torchvision", 224, LOGITS, 28_589_128, 4.46, "none", "f9cafae3"),
    row("swin_t", "torchvision", 224, LOGITS, 28_288_354, 4.49, "none", "4cea1ea6"),
    row("deeplabv3_mobilenet_v3_large", "torchvision", 520, MASK, 11_025_477, 10.44, "folded",
        "cc068be9"),
    row("lraspp_mobilenet_v3_large", "torchvision", 520, MASK, 3_221_538, 2.09, "kept", "e15f903c"),
    row("seresnet50", "timm", 224, LOGITS, 28_088_024, 4.09, "folded", "a58d02ee"),
    row("res2net50_26w_4s", "timm", 224, LOGITS, 25_699_120, 4.26, "kept", "a1c2f858"),
    row("skresnet34", "timm", 224, LOGITS, 22_282_376, 3.66, "kept", "3c55685a"),
    row("cspdarknet53", "timm", 256, LOGITS, 27_642_184, 6.53, "kept", "0cb9bc54"),
    row("dla34", "timm", 224, LOGITS, 15_742_104, 3.06, "folded", "78d07d69"),
    row("hrnet_w18", "timm", 224, LOGITS, 21_299_004, 4.28, "folded", "5f794651"),
    row("repvgg_a2", "timm", 224, LOGITS, 28_210_600, 5.69, "folded", "85078501"),
    row("ese_vovnet19b_dw", "timm", 224, LOGITS, 6_543_080, 1.33, "kept", "e75882f0"),
    row("ghostnet_100", "timm", 224, LOGITS, 5_182_508, 0.14, "folded", "2adc09af"),
    row("mixnet_s", "timm", 224, LOGITS, 4_134_606, 0.24, "kept", "bf91b0f1"),
    row("convmixer_768_32", "timm", 224, LOGITS, 21_110_248, 20.68, "kept", "2199451a"),
    row("deit_small_patch16_224", "timm", 224, LOGITS, 22_050_664, 4.24, "none", "d2040858"),
]

LIBRARIES = {"torchvision": "torchvision==0.28.0", "timm": "timm==1.0.31"}


def from_library(model: Model):
  """The library's module with its own initial weights; ImportError says what to install."""
  try:
    library = importlib.import_module(model.module)
  except ModuleNotFoundError as error:
    raise ImportError(f"models: {model.name} is defined by {model.module}: "
                      f"pip install {LIBRARIES[model.module]}") from error
  if model.module == "timm":
    return library.create_model(model.name)
  arguments = {"weights": None}
  if model.outputs == MASK:
    arguments["weights_backbone"] = None
  if model.name in ("inception_v3", "googlenet"):
    # Without the classifiers that only training uses.
    arguments |= {"aux_logits": False, "init_weights": False}
  module = library.models.get_model(model.name, **arguments)
  return only_mask(module) if model.outputs == MASK else module


def only_mask(segmenter):
  """Torchvision's segmentation models return a dictionary."""
  from torch import nn

  class Mask(nn.Module):
    def __init__(self):
      super().__init__()
      self.segmenter = segmenter

    def forward(self, x):
      return self.segmenter(x)["out"]

  return Mask()
