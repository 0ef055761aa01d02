"""Ground of all rooms: checks, dataclasses, lazy public names, advice on foreign names."""
