"""`python -m emberq` is the command `emberq`."""

from emberq.cli.main import main

if __name__ == "__main__":
    main()
