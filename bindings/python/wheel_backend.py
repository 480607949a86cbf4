"""Builds the wheel of the package (PEP 517, PEP 660). It needs nothing but Python.

The wheel carries libtile: the file that TILE_LIBRARY names, else build/release/runtime/libtile.so of this
tree. Without one it is a wheel for every platform, whose package uses the library of the system.
"""

import base64
import hashlib
import os
import sysconfig
import tarfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAME, VERSION = "tilec", "0.2.0"
SUMMARY = "Tile kernels from Python: compile .tile files, launch them on NumPy arrays and PyTorch tensors"
METADATA = (
    f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\nSummary: {SUMMARY}\nRequires-Python: >=3.9\n"
)


def _library():
    named = os.environ.get("TILE_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise SystemExit(f"TILE_LIBRARY names {named}, which is no file")
        return named
    built = os.path.join(HERE, "..", "..", "build", "release", "runtime", "libtile.so")
    return built if os.path.isfile(built) else None


def _tag():
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"py3-none-{platform}" if _library() else "py3-none-any"


def _write(path, files):
    """A wheel of files {name: bytes}, with its record."""
    info = f"{NAME}-{VERSION}.dist-info"
    files[f"{info}/METADATA"] = METADATA.encode()
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: wheel_backend\nRoot-Is-Purelib: "
        f"{'false' if _library() else 'true'}\nTag: {_tag()}\n"
    ).encode()
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same files give the same wheel
            entry.external_attr = (0o755 if name.endswith(".so.0") else 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        record.append(f"{info}/RECORD,,")
        out.writestr(zipfile.ZipInfo(f"{info}/RECORD", (2020, 1, 1, 0, 0, 0)), "\n".join(record) + "\n")


def _read(path):
    with open(path, "rb") as file:
        return file.read()


def _sources():
    folder = os.path.join(HERE, "tile")
    return {
        f"tile/{name}": _read(os.path.join(folder, name))
        for name in sorted(os.listdir(folder))
        if name.endswith(".py") or name == "py.typed"
    }


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{NAME}-{VERSION}-{_tag()}.whl"
    files, library = _sources(), _library()
    if library:
        files["tile/libtile.so.0"] = _read(library)
    _write(os.path.join(wheel_directory, name), files)
    return name


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = f"{NAME}-{VERSION}-{_tag()}.whl"
    _write(os.path.join(wheel_directory, name), {f"{NAME}.pth": (HERE + "\n").encode()})
    return name


def build_sdist(sdist_directory, config_settings=None):
    name = f"{NAME}-{VERSION}"
    with tarfile.open(os.path.join(sdist_directory, name + ".tar.gz"), "w:gz") as out:
        for part in ("tile", "tests", "pyproject.toml", "wheel_backend.py", "README.md"):
            out.add(
                os.path.join(HERE, part),
                f"{name}/{part}",
                filter=lambda e: None if "__pycache__" in e.name else e,
            )
    return name + ".tar.gz"
