"""What every model behind HTTP shares."""
