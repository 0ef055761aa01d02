"""What users have today, on the corpora of our benchmarks: every function yields samples."""
