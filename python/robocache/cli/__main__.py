"""`python -m robocache.cli`."""

from robocache.cli.app import main

if __name__ == "__main__":
    main()
