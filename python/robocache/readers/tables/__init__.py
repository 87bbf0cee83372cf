"""CSV and Parquet files of one recording: columns of numbers, one of them the time.

Here, and not in a module, since others than the readers of tables use its parts: LeRobot's data
are Parquet (`arrow`, `parquet_rows`), and NPZ files name their times likewise (`names`, `times`).
"""
