"""The package as ament_python installs it."""

from setuptools import setup

NAME = "robocache_policy_py"

setup(
    name=NAME,
    version="0.1.0",
    packages=[NAME],
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        (f"share/{NAME}/launch", ["launch/policy.launch.xml"]),
        (f"share/{NAME}/config", ["config/policy.yaml"]),
    ],
    install_requires=["setuptools"],
    zip_safe=True,
    maintainer="RoboCache",
    maintainer_email="maintainers@robocache.invalid",
    description="Runs a policy in Python on RoboCache's windows of live sensors.",
    license="Apache-2.0",
    entry_points={"console_scripts": [f"policy_node = {NAME}.policy_node:main"]},
)
