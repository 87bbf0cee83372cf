"""CSV, Parquet and NPZ files of one recording: columns of numbers, one of them the time.

The LeRobot reader uses `arrow` and `parquet_rows` too, since its data are Parquet files.
"""
