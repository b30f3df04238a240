"""`python -m ascendrt` is the `ascendrt` command."""

import sys

from ascendrt.cli import main

sys.exit(main())
