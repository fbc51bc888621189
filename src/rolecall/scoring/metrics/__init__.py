"""How an answer is held against the gold one: small functions of the same shape."""
