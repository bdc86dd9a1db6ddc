"""The code that jobs run, copied at the start of a sweep, so that edits while jobs queue change nothing.

SWEEP_DIR/snapshot/N/ holds ``code/`` (sweep.py's directory: what git tracks or would track), ``package/``
(batchscout itself, where it is an editable checkout outside of that directory), ``diff.patch`` (against the
commit) and ``snapshot.json``. Jobs get its directories first on sys.path. A snapshot equal to the newest one
is not taken again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import batchscout
from batchscout.errors import SweepError

LIMIT_BYTES = 100_000_000
LIMIT_FILE_BYTES = 20_000_000
_CODE_SUFFIXES = {
    ".py",
    ".pyi",
    ".yaml",
    ".yml",
    ".json",
    ".toml",
    ".cfg",
    ".txt",
    ".sh",
    ".sbatch",
    ".pt",
    ".npz",
}
_NEVER = {"__pycache__", ".git", "node_modules", "site-packages", "runs", "outputs", "multirun", "mlruns"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One copy of the code.

    path         SWEEP_DIR/snapshot/N
    python_path  directories below `path` that go first on sys.path, in order
    commit       of sweep.py's repository, None without git
    is_dirty     the working tree differed from the commit (diff.patch; untracked files are in code/ only)
    digest       of all paths and contents
    left_out     files larger than 20 MB, which jobs do not see
    """

    number: int
    path: Path
    python_path: tuple[str, ...]
    commit: str | None
    is_dirty: bool
    digest: str
    files: int
    left_out: tuple[str, ...] = ()

    @property
    def import_path(self) -> tuple[Path, ...]:
        """What goes first on sys.path of a job."""
        return tuple(self.path / p for p in self.python_path)


def take_snapshot(sweep_directory: Path, source: Path) -> Snapshot:
    """Copy the code below `source` (sweep.py's directory), or return the newest snapshot if nothing changed.

    Raises  SweepError if there is more than 100 MB to copy.
    """
    source = source.resolve()
    root = Path(sweep_directory).resolve() / "snapshot"
    trees = {"code": source, **_package_tree(source)}
    listed = {name: sorted(_files(tree, sweep_directory.resolve())) for name, tree in trees.items()}
    left_out = [f"{n}/{f}" for n, fs in listed.items() for f in fs if _size(trees[n] / f) > LIMIT_FILE_BYTES]
    files = {n: [f for f in fs if f"{n}/{f}" not in left_out] for n, fs in listed.items()}
    _check_size(source, sum(_size(trees[n] / f) for n, fs in files.items() for f in fs))
    digest = _digest(trees, files)
    newest = newest_snapshot(sweep_directory)
    if newest is not None and newest.digest == digest:
        return newest
    commit, diff = _git_state(source)
    snapshot = Snapshot(
        number=newest.number + 1 if newest else 1,
        path=root / str(newest.number + 1 if newest else 1),
        python_path=_python_path(source, trees),
        commit=commit,
        is_dirty=bool(diff) or _has_untracked(source),
        digest=digest,
        files=sum(len(fs) for fs in files.values()),
        left_out=tuple(left_out),
    )
    _write(snapshot, trees, files, diff)
    return snapshot


def newest_snapshot(sweep_directory: Path) -> Snapshot | None:
    """The one with the highest number, None before the first."""
    root = Path(sweep_directory) / "snapshot"
    numbers = [int(p.name) for p in root.glob("*") if p.name.isdigit()] if root.is_dir() else []
    return load_snapshot(sweep_directory, max(numbers)) if numbers else None


def load_snapshot(sweep_directory: Path, number: int) -> Snapshot:
    """Raises SweepError if it is not there."""
    path = Path(sweep_directory).resolve() / "snapshot" / str(number)
    try:
        record = json.loads((path / "snapshot.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise SweepError(
            f"{path} holds no snapshot; the job cannot run the code it was planned with"
        ) from error
    return Snapshot(
        number=record["number"],
        path=path,
        python_path=tuple(record["python_path"]),
        commit=record["commit"],
        is_dirty=record["is_dirty"],
        digest=record["digest"],
        files=record["files"],
        left_out=tuple(record["left_out"]),
    )


def outside_of_snapshot(file: str | None, snapshot: Path) -> bool:
    """Whether an imported module's file comes from neither the snapshot nor an installation: from a working
    tree."""
    if file is None:
        return False
    path = Path(file).resolve()
    installed = [Path(sysconfig.get_path(key)) for key in ("purelib", "platlib", "stdlib", "platstdlib")]
    return not any(path.is_relative_to(p.resolve()) for p in (snapshot, *installed))


def _write(snapshot: Snapshot, trees: dict[str, Path], files: dict[str, list[str]], diff: str) -> None:
    """All of it or nothing: made beside and renamed."""
    temporary = snapshot.path.with_name(f"{snapshot.number}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    for name, tree in trees.items():
        for file in files[name]:
            target = temporary / name / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / file, target)
    temporary.mkdir(parents=True, exist_ok=True)
    (temporary / "diff.patch").write_text(diff, encoding="utf-8")
    record = {"v": 1, **asdict(snapshot), "created": time.time()}
    del record["path"]
    (temporary / "snapshot.json").write_text(json.dumps(record, indent=1), encoding="utf-8")
    temporary.rename(snapshot.path)


def _package_tree(source: Path) -> dict[str, Path]:
    """batchscout's own packages where they are edited in place and are not below `source` anyway."""
    package = Path(batchscout.__file__).resolve().parent.parent
    if package.name in ("site-packages", "dist-packages") or package.is_relative_to(source):
        return {}
    return {"package": package}


def _python_path(source: Path, trees: dict[str, Path]) -> tuple[str, ...]:
    package = Path(batchscout.__file__).resolve().parent.parent
    if package.is_relative_to(source) and package != source:
        return ("code", f"code/{package.relative_to(source)}")
    return tuple(trees)


def _files(tree: Path, sweep_directory: Path) -> Iterator[str]:
    """Paths relative to `tree`: what git tracks or would track, else every code file; never a sweep's own
    output."""
    tracked = _git(tree, "ls-files", "-z")
    if tracked is None:
        names = list(_walk(tree))
    else:
        untracked = (_git(tree, "ls-files", "-z", "-o", "--exclude-standard") or "").split("\0")
        names = [*tracked.split("\0"), *(n for n in untracked if not _NEVER & set(Path(n).parts))]
    for name in names:
        path = tree / name
        if name and path.is_file() and not path.is_relative_to(sweep_directory):
            yield name


def _walk(tree: Path) -> Iterator[str]:
    for directory, subdirectories, names in os.walk(tree):
        here = Path(directory)
        subdirectories[:] = sorted(
            d
            for d in subdirectories
            if d not in _NEVER and not d.startswith(".") and not (here / d / "pyvenv.cfg").exists()
        )
        for name in sorted(names):
            if Path(name).suffix in _CODE_SUFFIXES:
                yield str((here / name).relative_to(tree))


def _size(path: Path) -> int:
    return path.stat().st_size


def _check_size(source: Path, size: int) -> None:
    if size > LIMIT_BYTES:
        raise SweepError(
            f"{source} holds {size / 1e6:.0f} MB of code, more than the {LIMIT_BYTES / 1e6:.0f} MB that are "
            "copied for the jobs; keep data out of it, or list it in .gitignore"
        )


def _digest(trees: dict[str, Path], files: dict[str, list[str]]) -> str:
    digest = hashlib.sha256()
    for name, tree in trees.items():
        for file in files[name]:
            digest.update(f"{name}/{file}\0".encode())
            digest.update(hashlib.sha256((tree / file).read_bytes()).digest())
    return digest.hexdigest()


def commit_of(source: Path) -> str | None:
    """The commit checked out there, None without git."""
    commit = _git(source, "rev-parse", "HEAD")
    return None if commit is None else commit.strip()


def _git_state(source: Path) -> tuple[str | None, str]:
    commit = _git(source, "rev-parse", "HEAD")
    if commit is None:
        return None, ""
    return commit.strip(), _git(source, "diff", "HEAD", "--binary") or ""


def _has_untracked(source: Path) -> bool:
    return bool((_git(source, "ls-files", "-o", "--exclude-standard") or "").strip())


def _git(directory: Path, *arguments: str) -> str | None:
    """git's answer, None where there is no repository, no git, or no commit yet."""
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return None
    return done.stdout
