"""What the formats share that are read in units: rows of files, in runs."""
