"""How models are asked: generation, perplexity, likelihood, several turns, several samples."""
