"""What training tells about itself, and to whom."""
