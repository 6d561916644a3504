"""What is known of accelerators of every vendor: a data file for each, read where a device of that vendor is present.

`nfd.accelerators.vendors` finds and loads them; the files beside it are the vendors that we know, and a plug-in adds
one by an entry point of the group `nfd.accelerators`.
"""
