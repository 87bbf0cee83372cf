"""What `robocache demo` runs. It reads as an example of the library: start at run.py."""
