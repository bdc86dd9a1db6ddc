"""Where the embedded MLflow database is, and whether a database may lie there at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

# SQLite's locks are unreliable on these (SQLite FAQ 5): two writers on two nodes can corrupt the file.
NETWORK_FILESYSTEMS = frozenset(
    [
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "lustre",
            "gpfs",
            "beegfs",
            "ceph",
            "glusterfs",
            "afs",
            "9p",
        ),
        *(
            "panfs",
            "wekafs",
            "pvfs2",
            "orangefs",
            "daos",
            "davfs",
            "fuse.sshfs",
            "fuse.glusterfs",
            "fuse.ceph",
        ),
        *("fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs", "fuse.rclone"),
    ]
)


def embedded_uri(runs: Path) -> str:
    """The database of all sweeps below ``runs``: an absolute URI, whatever the working directory."""
    return f"sqlite:///{Path(runs).absolute() / 'mlflow.db'}"


def database_path(uri: str) -> Path | None:
    """The file behind a ``sqlite:///`` URI; None for a server or another database."""
    return Path(uri.removeprefix("sqlite:///")) if uri.startswith("sqlite:///") else None


def default_uri(directory: Path) -> str:
    """The database for a sweep whose files name none: the nearest parent called ``runs``, else its own."""
    directory = Path(directory).absolute()
    runs = next((parent for parent in directory.parents if parent.name == "runs"), directory)
    return embedded_uri(runs)


def local_uri(runs: Path) -> str:
    """A database on this machine's own disk for a ``runs`` directory on a network file system.

    It is only a copy of the journals, so a place that is emptied at reboot is good enough.
    """
    name = hashlib.sha256(str(Path(runs).absolute()).encode()).hexdigest()[:16]
    return embedded_uri(Path(tempfile.gettempdir()) / f"batchscout-{os.getuid()}" / name)


def filesystem_type(path: Path, mounts: str | None = None) -> str:
    """Type of the file system that holds ``path`` (which need not exist), "" where it cannot be said.

    mounts  content of /proc/mounts; read when None
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text(errors="replace")
        except OSError:  # not Linux: the type is unknown, which is not an error
            return ""
    path = Path(path).resolve()
    best, found = -1, ""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = Path(fields[1].encode().decode("unicode_escape"))  # spaces are written as \040
        depth = len(point.parts)
        if depth >= best and path.is_relative_to(point):  # later mounts on the same point hide earlier ones
            best, found = depth, fields[2]
    return found


def is_network_filesystem(path: Path, mounts: str | None = None) -> bool:
    """Whether a database under ``path`` would be shared between machines by a network file system."""
    return filesystem_type(path, mounts) in NETWORK_FILESYSTEMS
