"""Pictures, sounds and videos."""
