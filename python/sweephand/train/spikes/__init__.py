"""Spikes of the loss: seen, gone back from, and healed."""
