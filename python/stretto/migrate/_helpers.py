"""The helper functions that a migrated script gets: a row each, of which those that it uses are
written into it. They are plain PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

BEGIN = "# Ranks: written by `stretto migrate`. One process alone is rank 0 of 1."


@dataclass(frozen=True)
class Helper:
  name: str
  imports: tuple[str, ...]
  text: str


HELPERS = (
  Helper("start_ranks", ("import os", "import torch", "import torch.distributed as dist"), '''
def start_ranks():
    """Joins the ranks that `stretto run` or torchrun has started."""
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    BACKEND
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
'''),
  Helper("print_once", ("import torch.distributed as dist",), '''
def print_once(*values, **options):
    """print() of rank 0. Every rank evaluates what is printed."""
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(*values, **options)
'''),
  Helper("first_on_host", ("import os", "from contextlib import contextmanager",
                           "import torch.distributed as dist"), '''
@contextmanager
def first_on_host():
    """The first rank of each host runs the block before the others: it downloads, they find it."""
    first = os.environ.get("LOCAL_RANK", "0") == "0"
    if not first:
        dist.barrier()
    try:
        yield
    finally:
        if first:
            dist.barrier()
'''),
  Helper("sampling", ("import torch.distributed as dist",
                      "from torch.utils.data import DistributedSampler"), '''
def sampling(dataset, shuffle=False, **options):
    """Options of a DataLoader for this rank's share of the samples; alone, those it had."""
    if dist.get_world_size() == 1:
        return {"shuffle": shuffle, **options}
    sampler = DistributedSampler(
        dataset, shuffle=bool(shuffle), drop_last=options.get("drop_last", False))
    return {"sampler": sampler, **options}
'''),
  Helper("sampling_if_shuffled", (), '''
def sampling_if_shuffled(dataset, shuffle=False, **options):
    """The loader of the training, which shuffles, gets this rank's share; others the whole."""
    if shuffle:
        return sampling(dataset, shuffle, **options)
    return {"shuffle": False, **options}
'''),
  Helper("set_epoch", ("from torch.utils.data import DistributedSampler",), '''
def set_epoch(loader, epoch):
    """Lets the ranks draw another order of the samples in each epoch."""
    if isinstance(loader.sampler, DistributedSampler):
        loader.sampler.set_epoch(epoch)
'''),
  Helper("next_epoch", ("from torch.utils.data import DistributedSampler",), '''
def next_epoch(loader):
    """Lets the ranks draw another order of the samples than in the pass before."""
    if isinstance(loader.sampler, DistributedSampler):
        loader.sampler.set_epoch(loader.sampler.epoch + 1)
'''),
  Helper("ShareOfStream", ("import itertools", "import torch.distributed as dist",
                           "from torch.utils.data import IterableDataset"), '''
class ShareOfStream(IterableDataset):
    """Of every world_size samples of a stream, the one of this rank."""

    def __init__(self, stream):
        self.stream, self.rank, self.size = stream, dist.get_rank(), dist.get_world_size()

    def __iter__(self):
        samples = iter(self.stream)
        while len(row := list(itertools.islice(samples, self.size))) == self.size:
            yield row[self.rank]
'''),
  Helper("DistributedDataParallel",
         ("from torch.nn.parallel import DistributedDataParallel",), ""),
  Helper("unwrap", ("from torch.nn.parallel import DistributedDataParallel",), '''
def unwrap(model):
    """The module in DistributedDataParallel: its attributes, and names without `module.`."""
    return model.module if isinstance(model, DistributedDataParallel) else model
'''),
  Helper("same_randomness", ("import random", "import torch", "import torch.distributed as dist"),
         '''
def same_randomness():
    """All ranks prepare data and models from the random state of rank 0."""
    states = [torch.get_rng_state(), random.getstate()]
    dist.broadcast_object_list(states)
    torch.set_rng_state(states[0])
    random.setstate(states[1])
'''),
  Helper("same_randomness_numpy", ("import random", "import numpy", "import torch",
                                   "import torch.distributed as dist"), '''
def same_randomness():
    """All ranks prepare data and models from the random state of rank 0."""
    states = [torch.get_rng_state(), random.getstate(), numpy.random.get_state()]
    dist.broadcast_object_list(states)
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    numpy.random.set_state(states[2])
'''),
  Helper("own_randomness", ("import random", "import torch", "import torch.distributed as dist"),
         '''
def own_randomness():
    """From here on each rank draws other random numbers, in dropout and augmentation."""
    if dist.get_rank() > 0:
        seed = (torch.initial_seed() + dist.get_rank()) % 2**32
        torch.manual_seed(seed)
        random.seed(seed)
'''),
  Helper("own_randomness_numpy", ("import random", "import numpy", "import torch",
                                  "import torch.distributed as dist"), '''
def own_randomness():
    """From here on each rank draws other random numbers, in dropout and augmentation."""
    if dist.get_rank() > 0:
        seed = (torch.initial_seed() + dist.get_rank()) % 2**32
        torch.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed)
'''),
  Helper("sum_of_ranks", ("import torch", "import torch.distributed as dist"), '''
def sum_of_ranks(value):
    """A number or tensor, added over all ranks."""
    dtype = torch.float64 if isinstance(value, float) else None
    total = torch.as_tensor(value, dtype=dtype).detach().clone()
    device = total.device
    if dist.get_backend() == "nccl":
        total = total.cuda()
    dist.all_reduce(total)
    return total.to(device) if isinstance(value, torch.Tensor) else total.item()
'''),
  Helper("mean_of_ranks", ("import torch.distributed as dist",), '''
def mean_of_ranks(value):
    """A number or tensor, averaged over all ranks."""
    return sum_of_ranks(value) / dist.get_world_size()
'''),
)

NEEDS = {"mean_of_ranks": ("sum_of_ranks",), "sampling_if_shuffled": ("sampling",)}

BACKENDS = {
  "auto": ('backend = "nccl" if cuda else "stretto"', ("import stretto.torch",)),
  "stretto": ('backend = "stretto"', ("import stretto.torch",)),
  "gloo": ('backend = "gloo"', ()),
  "nccl": ('backend = "nccl" if cuda else "gloo"', ()),
}


def chosen(names: set[str], backend: str) -> tuple[list[str], list[str]]:
  """The import lines and the texts of the helpers."""
  names = names | {needed for name in names for needed in NEEDS.get(name, ())}
  rows = [row for row in HELPERS if row.name in names]
  line, more = BACKENDS[backend]
  imports = dict.fromkeys([*(i for row in rows for i in row.imports), *more,
                           "import torch.distributed as dist"])
  texts = [row.text.strip().replace("BACKEND", line) + "\n" for row in rows if row.text]
  return list(imports), texts
