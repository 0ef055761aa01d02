"""How well an order shuffles: measured by a battery of figures, and predicted."""
