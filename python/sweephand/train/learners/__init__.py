"""What changes the parameters of a model, by sums of gradients."""
