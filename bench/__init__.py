"""Measurements of our own: `python -m bench`, and the larger ones in bench.search, bench.chaos and beside them."""
