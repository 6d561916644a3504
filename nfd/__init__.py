"""Node feature discovery: worker, master and what they share."""

__version__ = "0.1.0"
