"""A dataset and a model, understood together: entries of a config in, fitted requests out."""
