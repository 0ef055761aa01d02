"""Tables, progress bars, charts and figures for people. Only this room knows rich."""
