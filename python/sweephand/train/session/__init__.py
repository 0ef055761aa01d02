"""Training sessions: minibatches in a row, and what is due between them."""
