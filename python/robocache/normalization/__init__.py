"""Normalization and its inverse outside of the loader, and the statistics it is computed from."""
