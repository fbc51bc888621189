"""Causal language models run by `transformers`."""
