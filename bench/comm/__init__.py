"""Gradient communication beside the engines people use today: `python -m bench.comm --list`."""
