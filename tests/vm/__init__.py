"""Machines that boot: Debian kernels under QEMU's emulation, with the worker's pod as its manifest says."""
