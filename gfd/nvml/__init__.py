"""One reading of the devices through NVML: load, initialise, ask, shut down. The only package that imports pynvml.

Nothing of NVML is open between two readings, and no handle outlives one, so that whoever reloads the driver or carves
MIG devices need not wait for us (NVML API reference, "Initialization and Cleanup").
"""

from __future__ import annotations

from gfd.nvml.reading import Reading

__all__ = ["Reading"]
