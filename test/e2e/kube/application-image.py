#!/usr/bin/env python3
"""application-image.py NAME:TAG OUT.tar: an image with the application of the end-to-end scenarios, the library for
Python and this Python itself, for a program that takes archives of `docker save`."""

import glob
import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
PROGRAM = "/test/e2e/recorder/application.py"
LEFT_OUT = re.compile(r"tests?|idlelib|ensurepip|tkinter|turtledemo|lib2to3|(site|dist)-packages|config-.*")


def python():
    """The files of this Python: its program, its library, and the shared libraries that they need."""
    program = os.path.realpath(sys.executable)
    files = {program}
    for directory, below, names in os.walk(sysconfig.get_path("stdlib")):
        below[:] = [name for name in below if not LEFT_OUT.fullmatch(name)]
        files.update(os.path.join(directory, name) for name in names if ".opt-" not in name)
    linked = [program] + [file for file in files if file.endswith(".so")]
    libraries = subprocess.run(["ldd", *linked], capture_output=True, text=True, check=False).stdout
    return program, files | set(re.findall(r"(?:=> |^\s)(/\S+) \(", libraries, re.MULTILINE))


def layer(files):
    out, made = io.BytesIO(), set()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for name, source in sorted(files.items()):
            parts = name.strip("/").split("/")
            for n in range(1, len(parts)):
                above = tarfile.TarInfo("/".join(parts[:n]))
                if above.name not in made:
                    made.add(above.name)
                    above.type, above.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(above)
            tar.add(source, name.strip("/"))
    return out.getvalue()


def main(name, archive):
    program, files = python()
    content = {file: file for file in files}
    for path in [ROOT + PROGRAM, *glob.glob(ROOT + "/clients/python/shardctl/*.py")]:
        content[path.removeprefix(ROOT)] = path
    blob = layer(content)
    digest = hashlib.sha256(blob).hexdigest()
    config = json.dumps({
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()], "os": "linux",
        "config": {"Entrypoint": [program, PROGRAM], "User": "65532:65532"},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for path, data in (
            ("config.json", config), ("layer.tar", blob), ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(path)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


main(*sys.argv[1:])
