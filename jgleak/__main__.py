"""``python -m jgleak``."""

from jgleak.cli import main

if __name__ == "__main__":
    main()
