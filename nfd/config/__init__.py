"""Configuration: a field with type, default and docstring is the only place where an option exists."""
