"""Questions asked of finished runs: comparisons, paired tests, gates."""
