"""Benchmarks: every claim is measured beside its peers, in the same run."""
