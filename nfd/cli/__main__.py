"""`python -m nfd.cli`."""

from __future__ import annotations

import sys

from nfd.cli import main

sys.exit(main())
