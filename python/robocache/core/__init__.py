"""Shared by every package: the compiled library, settings, backends, errors, names of options."""
