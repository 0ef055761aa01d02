"""What there is to deliver: sequences, how they are read, and what of them is damaged."""
