"""Labels that another product writes too, such as the GPU operator or NVIDIA's DRA driver: which, and their rules.

The other product's value stays. When that is removed, the master writes its own again.
"""

from __future__ import annotations

from nfd import names

SHARED = frozenset(f"{names.NVIDIA_NS}/{name}" for name in ("gpu.present", "gpu.clique"))
"""They are managed only while nobody else has set them."""
SHARED_WAIT = 4.0
"""Seconds: the longest delay before one is restored that the other product sets and removes by design."""
