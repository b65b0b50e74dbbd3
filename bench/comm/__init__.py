"""Compares the gradient engine with those people use today: `python -m bench.comm --list`."""
