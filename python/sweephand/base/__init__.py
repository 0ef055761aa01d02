"""Ground of all rooms: checks, lazy public names, advice on foreign names."""
