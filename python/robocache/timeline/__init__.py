"""Recordings aligned to one table: :func:`align`, what it returns, and the files it writes."""
