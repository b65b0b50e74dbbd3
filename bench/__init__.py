"""Benchmarks: every claim is measured in the same run as its peers."""
