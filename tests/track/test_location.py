"""Where the embedded database lies."""

from pathlib import Path

from batchscout.track.location import (
    database_path,
    default_uri,
    embedded_uri,
    filesystem_type,
    is_network_filesystem,
    local_uri,
)

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/ada/scratch xfs rw 0 0
server:/my\\040data /mnt/my\\040data nfs rw 0 0
tmpfs /mnt/over tmpfs rw 0 0
lustre@tcp:/x /mnt/over lustre rw 0 0
"""


def test_the_deepest_mount_decides():
    assert filesystem_type(Path("/var/runs"), MOUNTS) == "ext4"
    assert filesystem_type(Path("/home/ada/runs"), MOUNTS) == "nfs4"
    assert filesystem_type(Path("/home/ada/scratch/runs"), MOUNTS) == "xfs"
    assert filesystem_type(Path("/homely"), MOUNTS) == "ext4"


def test_a_later_mount_hides_an_earlier_one_and_spaces_are_unescaped():
    assert filesystem_type(Path("/mnt/over/runs"), MOUNTS) == "lustre"
    assert is_network_filesystem(Path("/mnt/my data/runs"), MOUNTS)
    assert not is_network_filesystem(Path("/mnt/my"), MOUNTS)


def test_the_default_is_absolute_and_belongs_to_the_nearest_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert embedded_uri(Path("runs")) == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert default_uri(Path("runs/demo/now")) == f"sqlite:///{tmp_path}/runs/mlflow.db"
    assert database_path(default_uri(tmp_path / "elsewhere")) == tmp_path / "elsewhere" / "mlflow.db"
    assert database_path("http://server:5000") is None


def test_the_local_copy_is_one_per_directory():
    assert local_uri(Path("/a/runs")) == local_uri(Path("/a/runs")) != local_uri(Path("/b/runs"))
