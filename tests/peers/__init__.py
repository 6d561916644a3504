"""Taking over from the real NFD and GFD, and back: `make peers SOURCES=DIR`. See docs/testing.md.

No part of the tests: `DIR` has source trees that only a person can fetch, as `nfd-0.16`, `nfd-0.19` and `gfd-0.20`.
"""
