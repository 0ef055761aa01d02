"""Loss-spike rollback: the watch, the trials, the policy and the report."""
