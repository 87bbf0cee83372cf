"""What every package uses: the compiled library, settings, backends, errors, names of options."""
