"""python -m stretto: the same as the `stretto` command."""

import sys

from stretto.command import main

sys.exit(main())
