"""Training: schedules, learners, loss scale, trainer, session, checkpoints, progress."""
