"""Tables, progress bars, charts and figures of the command line; the only room that knows rich."""
