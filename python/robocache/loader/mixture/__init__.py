"""Several loaders as one."""
