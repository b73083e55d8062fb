"""Measure, beside peers, on this machine."""
