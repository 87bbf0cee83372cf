"""Gaps, source rows that are not valid, lengths; and what has a batch."""

from __future__ import annotations

from arithmetic import lerp
from encoding import N, Tensor, Y
from resampling import case

# The tables below keep a case to a few lines.
# fmt: off


def masks() -> None:
    case("max_gap_linear", "linear: the rows are at most max_gap apart, inclusive",
         [0, 8, 16, 24], [0, 8, 17, 24], [4, 12, 17, 20], [4, lerp(8, 16, 4, 9), 16, lerp(16, 24, 3,
         7)], [Y, N, Y, Y], max_gap=8)
    case("max_gap_previous", "previous: the row is at most max_gap away, inclusive",
         [1, 2], [0, 10], [3, 4, 10], [1, 1, 2], [Y, N, Y], method="previous", max_gap=3)
    case("max_gap_nearest", "nearest: likewise, on either side",
         [1, 2], [0, 10], [3, 4, 6, 7], [1, 1, 2, 2], [Y, N, N, Y], method="nearest", max_gap=3)
    case("max_gap_zero", "max_gap 0 leaves the hits",
         [0, 8], [0, 8], [0, 4, 8], [0, 4, 8], [Y, N, Y], max_gap=0)
    case("max_gap_float64", "max_gap in seconds, inclusive",
         [0, 8, 16], [0, 0.5, 1.25], [0.25, 0.75], [4, lerp(8, 16, 0.25, 0.75)], [Y, N],
         times="float64", max_gap=0.5)
    case("max_gap_outside", "outside stays invalid however large max_gap is",
         [1, 2], [0, 10], [-1, 11], [1, 2], [N, N], max_gap=1000)
    case("source_valid_linear",
         "both rows must be valid; invalid rows still bracket and give values",
         [0, 8, 16, 24], [0, 8, 16, 24], [4, 8, 12, 16, 20], [4, 8, 12, 16, 20], [N, N, N, Y, Y],
         source_valid=[Y, N, Y, Y])
    case("source_valid_previous", "previous: its one row decides",
         [1, 2, 3], [0, 10, 20], [0, 5, 10, 15, 20], [1, 1, 2, 2, 3], [Y, Y, N, N, Y],
         method="previous", source_valid=[Y, N, Y])
    case("source_valid_nearest", "nearest: its one row decides",
         [1, 2], [0, 10], [0, 5, 6, 10], [1, 1, 2, 2], [Y, Y, N, N], method="nearest",
         source_valid=[Y, N])
    case("source_valid_equal_times", "of equal times the hit is the last row, and so is its mask",
         [1, 2, 3], [0, 0, 10], [0], [2], [N], source_valid=[Y, N, Y])
    case("source_valid_and_max_gap", "either alone clears the mask",
         [0, 8, 16, 32], [0, 8, 16, 32], [4, 12, 24], [4, 12, 24], [N, Y, N], source_valid=[N, Y, Y,
         Y], max_gap=8)
    case("source_valid_batched", "a mask of its own for each batch row",
         [[0], [8]], [0, 8], [4], [[[4]], [[4]]], [[Y], [N]], source_valid=[[Y, Y], [Y, N]])
    case("source_lengths", "rows past the length do not exist, whatever they hold",
         [[[1], [3], ["nan"]], [[5], [7], [9]]], [[0, 2, -99], [0, 2, 4]], [1, 2, 3], [[[2], [3],
         [3]], [[6], [7], [8]]], [[Y, Y, N], [Y, Y, Y]], lengths=[2, 3])
    case("source_lengths_int32", "lengths as int32, times shared by the batch",
         [[[1], [3]], [[5], [7]]], [0, 2], [1], [[[1]], [[6]]], [[N], [Y]], lengths=[1, 2],
         lengths_dtype="int32")
    case("source_lengths_shared", "one length without a batch keeps the output unbatched",
         [1, 3, 100], [0, 2, 4], [1, 3], [2, 3], [Y, N], lengths=Tensor("int64", (), [2]))
    case("source_lengths_give_the_batch", "lengths alone may bring the batch",
         [1, 3, 5], [0, 2, 4], [3], [[[0]], [[1]], [[3]], [[4]]], [[N], [N], [N], [Y]], lengths=[0,
         1, 2, 3])
    case("source_lengths_extrapolate", "the last two rows are those within the length",
         [[[0], [1], [9]], [[0], [1], [9]]], [0, 2, 4], [6], [[[3]], [[17]]], [[N], [N]],
         lengths=[2, 3], outside="extrapolate")
    case("source_lengths_nearest", "a row past the length is not the nearest",
         [1, 2, 3], [0, 10, 20], [19], [2], [N], method="nearest", lengths=Tensor("int64", (), [2]))


def batches() -> None:
    case("batch_everything", "values, sources and targets of their own",
         [[[0], [4]], [[10], [20]]], [[0, 4], [0, 10]], [[1, 2], [5, 10]], [[[1], [2]], [[15],
         [20]]], [[Y, Y], [Y, Y]])
    case("batch_shared_times", "times shared by the batch",
         [[[0], [4]], [[10], [20]]], [0, 4], [1, 2], [[[1], [2]], [[12.5], [15]]], [[Y, Y], [Y, Y]])
    case("batch_shared_values", "values shared, sources of their own",
         [0, 4], [[0, 4], [0, 8]], [2], [[[2]], [[1]]], [[Y], [Y]])
    case("batch_shared_sources", "values and sources shared, targets of their own",
         [0, 4], [0, 4], [[1], [9]], [[[1]], [[4]]], [[Y], [N]])
    case("batch_of_one", "a batch of one stays a batch",
         [[[0], [4]]], [0, 4], [1], [[[1]]], [[Y]])
    case("no_targets", "T = 0",
         [[1, 2]], [0], [], Tensor("float32", (0, 2), []), [])
    case("no_channels", "D = 0 still has a mask",
         Tensor("float32", (2, 0), []), [0, 2], [1, 3], Tensor("float32", (2, 0), []), [Y, N])
    case("no_batch_rows", "B = 0",
         Tensor("float32", (0, 2, 3), []), [0, 2], [1], Tensor("float32", (0, 1, 3), []),
         Tensor("bool", (0, 1), []))
