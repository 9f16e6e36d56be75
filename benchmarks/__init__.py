"""Ratios against the published loop, measured in one run. Nothing here is a test."""
