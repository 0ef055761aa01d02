"""What a source delivers: minibatches, their streams, labels and boundaries."""
