"""What turns a minibatch into a step of a model."""
