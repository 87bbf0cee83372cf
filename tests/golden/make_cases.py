"""Writes the golden cases, *.json of this folder (README.md says their format).

Every expected value is stated by hand, or follows from exact rational arithmetic in which each
operation that the design names is rounded once (`arithmetic.rounded`). Nothing here calls the
library, NumPy or torch: only the standard library of Python 3.10. The cases themselves stand in the
modules cases_*, a topic each.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import cases_ages
import cases_layouts
import cases_masks
import cases_means
import cases_outside
import cases_rotations
import cases_rows
import cases_streams
import cases_sums
import cases_times
import cases_transforms
import cases_values
import cases_voxels
import fusing
import resampling
import voxelizing
from encoding import encode

FOLDER = Path(__file__).parent


def make() -> None:
    # cases.json: one stream
    cases_times.times()
    cases_rows.rows()
    cases_rotations.quaternions()
    cases_rotations.angles()
    cases_layouts.layouts()
    cases_outside.outside()
    cases_masks.masks()
    cases_masks.batches()
    cases_values.dtypes()
    cases_values.normalization()
    # fuse.json: any number of streams
    cases_means.means()
    cases_sums.sums()
    cases_streams.clock_offsets()
    cases_ages.ages()
    cases_streams.streams()
    # voxels.json: voxelization
    cases_voxels.cells()
    cases_voxels.modes()
    cases_voxels.arithmetic()
    cases_voxels.clouds()
    cases_voxels.voxels()
    # transforms.json: transforms
    cases_transforms.rotations()
    cases_transforms.tiny_rotations()
    cases_transforms.no_exact_rotations()
    cases_transforms.poses()
    cases_transforms.deltas()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="compare with the files, write nothing"
    )
    arguments = parser.parse_args()
    make()
    differs = False
    files = {
        "cases.json": resampling.CASES,
        "fuse.json": fusing.CASES,
        "voxels.json": voxelizing.CASES,
        "transforms.json": cases_transforms.CASES,
    }
    for name, cases in files.items():
        path, text = FOLDER / name, encode(cases)
        if not arguments.check:
            path.write_text(text)
            print(f"{name}: {len(cases)} cases")
        elif path.exists() and path.read_text() == text:
            print(f"{name}: up to date")
        else:
            print(f"{name}: differs from what make_cases.py writes")
            differs = True
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
