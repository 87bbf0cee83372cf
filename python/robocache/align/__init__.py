"""Alignment: values with their own timestamps, on a requested timeline."""
