"""`python -m robocache`: the command line."""

from robocache.cli import main

if __name__ == "__main__":
    main()
