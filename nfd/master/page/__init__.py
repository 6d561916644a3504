"""The page: the fleet as a picture, in a browser, from the Nodes that the master has in memory."""
