"""Node feature discovery: worker, master and what they share."""

__version__ = "1.0.0rc1"
