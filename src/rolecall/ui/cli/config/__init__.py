"""`rolecall config`: configs as rolecall reads them, and the parts that they can name."""
