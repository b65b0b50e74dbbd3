"""SyncBatchNorm for any device. torch's own refuses CPU tensors; the arithmetic is the same: ranks
exchange mean, variance and count in one message, and two sums in one message on the way back."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from stretto._checks import expected, is_count
from stretto._errors import InvalidArgumentError


class SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
  """torch.nn.SyncBatchNorm for any device: normalises over the batches of all ranks.

  Ranks may have batches of different sizes, empty ones too.

  Args:
    num_features: number of channels, the second dimension of the input.
    eps: added to the variance.
    momentum: share of a new batch in the running statistics; None: their plain average.
    affine: whether there are a weight and a bias.
    track_running_stats: whether running statistics are kept.
    process_group: the ranks to normalise over; None: all of them.
    device: of the parameters.
    dtype: of the parameters.

  Raises:
    InvalidArgumentError: `num_features` is no number of channels.
  """

  def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
               affine: bool = True, track_running_stats: bool = True, process_group=None,
               device=None, dtype=None):
    if not is_count(num_features):
      raise expected("SyncBatchNorm: num_features", "a number of channels", num_features)
    super().__init__(num_features, eps, momentum, affine, track_running_stats, device=device,
                     dtype=dtype)
    self.process_group = process_group

  def _check_input_dim(self, input: torch.Tensor) -> None:
    if not isinstance(input, torch.Tensor):
      raise expected("SyncBatchNorm: input", "a torch.Tensor", input)
    if input.dim() < 2:
      raise InvalidArgumentError(
          f"SyncBatchNorm: expected at least 2 dimensions, got {input.dim()}")

  def forward(self, input: torch.Tensor) -> torch.Tensor:
    """Normalises a batch, in training with the statistics of all ranks.

    Args:
      input: (batch, channels, ...).

    Returns:
      A tensor of the same shape.

    Raises:
      InvalidArgumentError: the input has fewer than 2 dimensions.
    """
    group = self.process_group
    synced = self.training and dist.is_initialized() and dist.get_world_size(group) > 1
    if not synced:
      self._check_input_dim(input)
      return self._alone(input)
    self._check_input_dim(input)
    output, mean, variance, count = Synced.apply(input, self.weight, self.bias, self.eps, group)
    if self.track_running_stats and self.running_mean is not None:
      self._note(mean, variance, count)
    return output

  def _note(self, mean: torch.Tensor, variance: torch.Tensor, count: torch.Tensor) -> None:
    with torch.no_grad():
      self.num_batches_tracked.add_(1)
      share = 1.0 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
      unbiased = variance * (count / (count - 1).clamp(min=1))
      self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
      self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)

  def _alone(self, input: torch.Tensor) -> torch.Tensor:
    training = self.training or self.running_mean is None
    share = self.momentum or 0.0
    if self.training and self.track_running_stats and self.num_batches_tracked is not None:
      self.num_batches_tracked.add_(1)
      if self.momentum is None:
        share = 1.0 / float(self.num_batches_tracked)
    tracked = not self.training or self.track_running_stats
    return nn.functional.batch_norm(
        input, self.running_mean if tracked else None, self.running_var if tracked else None,
        self.weight, self.bias, training, share, self.eps)

  @classmethod
  def convert_sync_batchnorm(cls, module: nn.Module, process_group=None) -> nn.Module:
    """Replaces every BatchNorm layer of a module. Parameters and statistics are kept.

    Args:
      module: the module; its layers are replaced in place.
      process_group: the ranks to normalise over; None: all of them.

    Returns:
      The module, or its replacement if it is a BatchNorm layer itself.

    Raises:
      InvalidArgumentError: `module` is no module.
    """
    if not isinstance(module, nn.Module):
      raise expected("convert_sync_batchnorm: module", "a torch.nn.Module", module)
    replaced = module
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
      replaced = cls(module.num_features, module.eps, module.momentum, module.affine,
                     module.track_running_stats, process_group)
      if module.affine:
        replaced.weight, replaced.bias = module.weight, module.bias
      replaced.running_mean, replaced.running_var = module.running_mean, module.running_var
      replaced.num_batches_tracked = module.num_batches_tracked
      replaced.training = module.training
    for name, child in module.named_children():
      replaced.add_module(name, cls.convert_sync_batchnorm(child, process_group))
    return replaced


convert_sync_batchnorm = SyncBatchNorm.convert_sync_batchnorm


def per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
  return values.reshape(1, -1, *[1] * (like.dim() - 2))


class Synced(torch.autograd.Function):

  @staticmethod
  def forward(ctx, input, weight, bias, eps, group):
    channels = input.shape[1]
    # 16-bit values are added and exchanged in fp32.
    wide = input if input.dtype == torch.float64 else input.float()
    axes = [0, *range(2, input.dim())]
    own = torch.zeros(2 * channels + 1, dtype=wide.dtype, device=input.device)
    own[-1] = input.numel() // channels
    if input.numel():
      own[channels:-1], own[:channels] = torch.var_mean(wide, axes, correction=0)
    ranks = dist.get_world_size(group)
    everyone = own.new_empty(ranks * own.numel())
    dist.all_gather_into_tensor(everyone, own, group=group)
    everyone = everyone.reshape(ranks, -1)
    # Chan et al., "Updating formulae and a pairwise algorithm for computing sample variances".
    means, variances, counts = everyone[:, :channels], everyone[:, channels:-1], everyone[:, -1:]
    total = counts.sum()
    mean = (means * counts).sum(0) / total
    variance = ((variances + (means - mean) ** 2) * counts).sum(0) / total
    output = nn.functional.batch_norm(
        wide, mean, variance, None if weight is None else weight.to(wide.dtype),
        None if bias is None else bias.to(wide.dtype), False, 0.0, eps)
    ctx.save_for_backward(wide, weight, mean, torch.rsqrt(variance + eps), total)
    ctx.group, ctx.has_bias = group, bias is not None
    ctx.mark_non_differentiable(mean, variance, total)
    return output.to(input.dtype), mean, variance, total

  @staticmethod
  def backward(ctx, grad, *_):
    input, weight, mean, scale, total = ctx.saved_tensors
    axes = [0, *range(2, input.dim())]
    wide = grad.to(input.dtype)
    centred = input - per_channel(mean, input)
    own = torch.cat([wide.sum(axes), (wide * centred).sum(axes)])
    grad_weight = None if weight is None else (own[len(mean):] * scale).to(weight.dtype)
    grad_bias = own[:len(mean)].to(weight.dtype) if ctx.has_bias else None
    sums = own.clone()
    dist.all_reduce(sums, group=ctx.group)
    sum_grad, sum_product = (sums / total).chunk(2)
    factor = scale if weight is None else scale * weight.to(scale.dtype)
    grad_input = per_channel(factor, input) * (
        wide - per_channel(sum_grad, input)
        - centred * per_channel(scale * scale * sum_product, input))
    return grad_input.to(grad.dtype), grad_weight, grad_bias, None, None
