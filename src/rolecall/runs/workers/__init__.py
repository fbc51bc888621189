"""Models that run in other processes, of this machine or of a Ray cluster."""
