"""Logs of waves, for sweephand."""
