"""Training data: exactly the requests that inference sends, followed by the answer."""
