"""The pytorch backend: all of the meaning in plain torch, on any device; also the reference."""
