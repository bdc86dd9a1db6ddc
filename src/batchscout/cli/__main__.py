"""`python -m batchscout.cli`, where the console script is not on PATH (batch scripts)."""

from batchscout.cli import main

if __name__ == "__main__":
    main()
