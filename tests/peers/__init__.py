"""Taking over from the real NFD and GFD, and back, and the real GPU operator beside ours: `make peers`.

No part of `make test`. NFD is built from its Go modules. GFD and the GPU operator are no Go modules: `PROGRAMS=DIR`
names a folder that has them, see docs/testing.md. What the last run found is in `results.json` and in the guides.
"""
