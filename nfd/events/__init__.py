"""What wakes the worker between two scans: kernel events, changed files and listings, signals."""
