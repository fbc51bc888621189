"""`rolecall runs`: run directories listed, merged, completed, and read from other harnesses."""
