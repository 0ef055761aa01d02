"""Processes, locks and files that several features share."""
