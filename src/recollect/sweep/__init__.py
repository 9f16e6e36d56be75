"""Sweeps: many trials in one run, their settings proposed from ranges, run in batches that a kill cannot lose."""
