"""A shared cache of several nodes, which all know the future order."""
