"""Builds and checks what a release publishes: `python -m release VERSION`, called by `make release`.

Each file is built twice, from the committed files alone, and must be equal both times. See docs/releasing.md.
"""
