"""Training sessions: minibatches in a row, and the activities between them."""
