"""Benchmarks of a server: what is sent, how fast, and what came back when."""
