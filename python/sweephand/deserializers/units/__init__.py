"""The common parts of formats that are read in units: runs of rows."""
