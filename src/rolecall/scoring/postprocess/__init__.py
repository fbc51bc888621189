"""From what a model said to what it meant: one small function for each way of answering."""
