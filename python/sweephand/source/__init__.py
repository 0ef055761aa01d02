"""Sources of minibatches: their settings, their order, their states, the memory they need."""
