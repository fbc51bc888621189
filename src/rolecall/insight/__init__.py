"""Questions asked of finished runs: comparisons, explanations, gates, sweeps, labels, scans."""
