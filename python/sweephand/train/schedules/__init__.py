"""Learning rates and momenta that change with the samples seen."""
