"""What users have today, on the corpora of the suite: every function is a contender."""
