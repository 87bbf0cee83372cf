"""The program behind `robocache demo`, an example of the library: start at run.py."""
