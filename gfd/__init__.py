"""GPU feature discovery: NVIDIA devices as labels."""
