"""The demonstration: real text, a small model, a run that is killed and resumed."""
