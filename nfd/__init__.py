"""Node feature discovery: worker, master and what they share."""
