"""A network, processes and mounts of its own for a proof: whatever becomes of it, they end with it."""
import os
import shutil
import subprocess
import sys

APARTMENT = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def move(*options):
    """Starts this program again in namespaces, with the options. Returns if they cannot be had."""
    if not shutil.which("ip") or subprocess.run([*APARTMENT, "ip", "link", "add", "type", "bridge"], capture_output=True).returncode:
        return print("on loopback, as there are no network namespaces here (root, unshare, ip)", flush=True)
    sys.stdout.flush()
    os.execvp("unshare", [*APARTMENT, sys.executable, *sys.argv, "--apart", *map(str, options)])


def mount(folder):
    """For the mounts of the members; nobody else sees it."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder], check=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", "/run"], check=True)
