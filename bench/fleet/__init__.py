"""A simulated fleet on a real API server: what one master costs, and how long it takes, as nodes grow in number."""
