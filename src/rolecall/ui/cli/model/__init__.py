"""Download and fine-tune local models."""
