"""`python -m regvar` is `regvar`."""

from regvar.cli import main

if __name__ == "__main__":
    main()
