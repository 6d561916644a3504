"""Chaos: everything that can break breaks at random for minutes, and a watcher checks every change of every Node."""
