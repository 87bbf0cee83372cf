"""Run one benchmark case once, for a profiler.

Example:
    ncu --profile-from-start off --section SpeedOfLight python benchmarks/once.py 'fuse 512x'
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

import torch

import run


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pattern", help="regular expression; the first case that matches is run")
    arguments = parser.parse_args()
    device = torch.device("cuda", 0)
    cases = [
        case
        for operation in run.OPERATIONS
        for case in operation.cases(device, [torch.bfloat16], False, "auto")
        if re.search(arguments.pattern, case.name)
    ]
    if not cases:
        print(f"no case matches {arguments.pattern!r}; run.py --list prints them", file=sys.stderr)
        return 2
    inputs = cases[0].make_inputs(torch.Generator(device=device).manual_seed(0))
    cases[0].robocache(*inputs)  # loads what a first call loads
    torch.cuda.synchronize()
    cuda: Any = torch.cuda  # cudart has no types
    cudart = cuda.cudart()
    cudart.cudaProfilerStart()
    cases[0].robocache(*inputs)
    torch.cuda.synchronize()
    cudart.cudaProfilerStop()
    print(cases[0].name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
