"""Mixtures: several loaders as one."""
