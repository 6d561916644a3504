"""The page: a view of the fleet in a browser, from the Nodes in the master's memory."""
