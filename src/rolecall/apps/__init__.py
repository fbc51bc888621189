"""Applications on the same core: chat modules, training data, tuning."""
