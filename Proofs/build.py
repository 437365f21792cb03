"""Builds LockboxTestProcess for the proofs. Each function returns its path."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
os.environ["XDG_STATE_HOME"] = str(ROOT / ".build/test-state")  # what stores' users remember: not the developer's
PRODUCT = ["--product", "LockboxTestProcess"]


def for_release():
    return build("-c", "release", "-Xswiftc", "-enable-testing")


def for_debugging():
    return build()


def build(*options):
    command = ["swift", "build", "--package-path", ROOT, *options]
    subprocess.run([*command, *PRODUCT], check=True)
    path = subprocess.run([*command, "--show-bin-path"], check=True, capture_output=True, text=True).stdout
    return pathlib.Path(path.strip()) / "LockboxTestProcess"


def with_the_tests():
    """With the traits, and what the tests have compiled."""
    subprocess.run([ROOT / "Scripts/swift", "build", *PRODUCT, "--quiet"], check=True)
    return ROOT / ".build/tests/debug/LockboxTestProcess"
