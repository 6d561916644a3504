"""`nfd-gc`: deletes NodeFeature and NodeResourceTopology objects of Nodes that are gone, as NFD's does."""
