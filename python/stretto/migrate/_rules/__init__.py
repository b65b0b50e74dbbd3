"""The rules, in the order in which they look at a script."""

from stretto.migrate._rules._checkpoint import RULE as CHECKPOINT
from stretto.migrate._rules._device import RULE as DEVICE
from stretto.migrate._rules._download import RULE as DOWNLOAD
from stretto.migrate._rules._epoch import RULE as EPOCH
from stretto.migrate._rules._hints import RULE as HINTS
from stretto.migrate._rules._metrics import RULE as METRICS
from stretto.migrate._rules._model import RULE as MODEL
from stretto.migrate._rules._output import RULE as OUTPUT
from stretto.migrate._rules._randomness import RULE as RANDOMNESS
from stretto.migrate._rules._sampler import RULE as SAMPLER
from stretto.migrate._rules._start import RULE as START
from stretto.migrate._rules._unwrap import RULE as UNWRAP
from stretto.migrate._rules._writer import RULE as WRITER

RULES = (DEVICE, DOWNLOAD, SAMPLER, EPOCH, MODEL, UNWRAP, RANDOMNESS, METRICS, CHECKPOINT, WRITER,
         OUTPUT, HINTS, START)
