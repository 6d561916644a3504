"""Measurements: ratios and counts, one table each; never part of the tests."""
