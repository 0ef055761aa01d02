"""Other trainers and libraries over a source."""
