"""Taking over from the real NFD and GFD, and back: `make peers`.

No part of `make test`. NFD is built from its Go modules. GFD is no Go module: `PROGRAMS` names a folder with it, see
docs/testing.md. What the last run found is in `results.json` and in the guide.
"""
