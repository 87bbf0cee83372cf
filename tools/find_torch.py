"""Prints `version;folder` of this Python's torch, without the seconds that importing it takes."""

import importlib.metadata
import importlib.util
import re
import sys

spec = importlib.util.find_spec("torch")
if spec is None or not spec.submodule_search_locations:
    sys.exit("it has no torch (pip install 'torch>=2.10')")
version = re.match(r"[0-9.]+", importlib.metadata.version("torch"))
if version is None:
    sys.exit("its torch states no version")
print(version.group().rstrip("."), spec.submodule_search_locations[0], sep=";")
