"""What turns minibatches into a model: schedules, learners, loss scale."""
