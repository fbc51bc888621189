"""Analysis of finished runs: comparisons, paired tests, gates."""
