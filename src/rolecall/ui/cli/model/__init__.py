"""`rolecall model`: local models, downloaded and fine-tuned."""
