"""The ROS 2 packages of examples/ros2: manifests, launch files, parameters, files to install."""

from __future__ import annotations

import ast
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROS2 = Path(__file__).parents[3] / "examples" / "ros2"
CPP, PYTHON = ROS2 / "robocache_policy", ROS2 / "robocache_policy_py"
PACKAGES = pytest.mark.parametrize("package", [CPP, PYTHON], ids=lambda package: package.name)

# The elements of a package in the order of REP 149 (package.xml, format 3), and how many there are.
COUNTS = {
    "name": (1, 1), "version": (1, 1), "description": (1, 1), "maintainer": (1, 99),
    "license": (1, 99), "buildtool_depend": (0, 9), "depend": (0, 99), "exec_depend": (0, 99),
    "export": (0, 1),
}  # fmt: skip


def texts(root: ET.Element, tag: str) -> list[str]:
    return [element.text or "" for element in root.findall(tag)]


@PACKAGES
def test_manifests_are_of_format_3(package: Path) -> None:
    root = ET.parse(package / "package.xml").getroot()
    assert root.tag == "package" and root.attrib == {"format": "3"}
    tags = [element.tag for element in root]
    assert set(tags) <= set(COUNTS)
    assert [list(COUNTS).index(tag) for tag in tags] == sorted(
        list(COUNTS).index(tag) for tag in tags
    )
    for tag, (least, most) in COUNTS.items():
        assert least <= tags.count(tag) <= most, tag
    assert texts(root, "name") == [package.name] and re.fullmatch(r"[a-z][a-z0-9_]+", package.name)
    assert re.fullmatch(r"\d+\.\d+\.\d+", texts(root, "version")[0])
    [maintainer] = root.findall("maintainer")
    assert re.fullmatch(r"[^@\s]+@[^@\s]+\.[a-z]+", maintainer.attrib["email"]) and maintainer.text
    needed = texts(root, "depend") + texts(root, "exec_depend")
    assert len(needed) == len(set(needed))
    build_type = "ament_cmake" if package == CPP else "ament_python"
    assert texts(root, "export/build_type") == [build_type]


def test_the_cpp_manifest_has_what_cmake_finds() -> None:
    cmake = (CPP / "CMakeLists.txt").read_text()
    root = ET.parse(CPP / "package.xml").getroot()
    found = set(re.findall(r"find_package\((\w+)", cmake))
    # The library is no ROS package.
    assert found == {*texts(root, "depend"), *texts(root, "buildtool_depend"), "robocache"}
    assert f"project({CPP.name} " in cmake and cmake.rstrip().endswith("ament_package()")
    sources = {f"src/{path.name}" for path in (CPP / "src").iterdir()}
    assert set(re.findall(r"src/\w+\.cpp", cmake)) == sources
    included = set()
    for path in [*CPP.rglob("*.cpp"), *CPP.rglob("*.h")]:
        included |= set(re.findall(r"#include <(\w+)/[\w/]+\.hpp>", path.read_text()))
    assert included == set(texts(root, "depend"))


def test_the_python_manifest_has_what_is_imported() -> None:
    imported = set()
    for path in (PYTHON / PYTHON.name).iterdir():
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").partition(".")[0])
    root = ET.parse(PYTHON / "package.xml").getroot()
    of_ros = {"rclpy", "sensor_msgs", "std_msgs"}
    assert of_ros <= imported and of_ros <= set(texts(root, "exec_depend"))
    of_pip = {"numpy", "robocache", "torch"}
    standard = {"__future__", "collections", "dataclasses", "functools", "importlib", "typing"}
    assert imported <= of_ros | of_pip | standard | {PYTHON.name}


def test_setup_installs_what_ament_looks_for() -> None:
    given: dict[str, object] = {}
    text = (PYTHON / "setup.py").read_text()
    names: dict[str, object] = {"setup": given.update}
    exec(compile(text.replace("from setuptools import setup", ""), "setup.py", "exec"), names)
    root = ET.parse(PYTHON / "package.xml").getroot()
    assert given["name"] == PYTHON.name and given["packages"] == [PYTHON.name]
    for field in ("version", "description", "license"):
        assert given[field] == texts(root, field)[0]
    files = given["data_files"]
    assert isinstance(files, list)
    assert files[0] == (
        "share/ament_index/resource_index/packages", [f"resource/{PYTHON.name}"]
    )  # fmt: skip
    for folder, paths in files:
        assert folder.startswith("share/")
        assert all((PYTHON / path).is_file() for path in paths)
    assert (PYTHON / "resource" / PYTHON.name).read_bytes() == b""  # a marker
    assert given["entry_points"] == {
        "console_scripts": [f"policy_node = {PYTHON.name}.policy_node:main"]
    }
    assert "def main() -> None:" in (PYTHON / PYTHON.name / "policy_node.py").read_text()
    scripts = f"$base/lib/{PYTHON.name}"
    assert (PYTHON / "setup.cfg").read_text() == (
        f"[develop]\nscript_dir={scripts}\n[install]\ninstall_scripts={scripts}\n"
    )


@PACKAGES
def test_launch_files_start_the_node(package: Path) -> None:
    root = ET.parse(package / "launch" / "policy.launch.xml").getroot()
    [node] = root.findall("node")
    assert (node.attrib["pkg"], node.attrib["exec"]) == (package.name, "policy_node")
    [config] = [arg for arg in root.findall("arg") if arg.attrib["name"] == "config"]
    share = f"$(find-pkg-share {package.name})/"
    assert config.attrib["default"].startswith(share)
    assert (package / config.attrib["default"].removeprefix(share)).is_file()


@PACKAGES
def test_parameters_of_the_file_are_the_nodes(package: Path) -> None:
    """And those of the README."""
    text = "".join(
        path.read_text()
        for path in package.rglob("policy_node.*")
        if path.suffix in (".py", ".cpp")
    )
    declared = set(re.findall(r'(?:declare_parameter|_texts)\("(\w+)"', text))
    config = (package / "config" / "policy.yaml").read_text()
    assert config.startswith("/**:\n  ros__parameters:\n")
    assert set(re.findall(r"^    (\w+):", config, re.M)) == declared
    rows = re.findall(r"^\| `(\w+)`( \(Python\))? \|", (ROS2 / "README.md").read_text(), re.M)
    assert {name for name, only in rows if package == PYTHON or not only} == declared
