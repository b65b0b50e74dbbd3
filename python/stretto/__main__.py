"""python -m stretto: the same as the `stretto` command."""

import sys

from stretto._command import main

sys.exit(main())
