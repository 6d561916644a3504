"""Reading what is attached to an image in an OCI registry (OCI Distribution Specification 1.1).

reference.py the names of images and platforms · documents.py what registries answer · client.py requests and log-in ·
artifact.py from an image to the compatibility specification that is attached to it
"""
