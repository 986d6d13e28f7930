"""What people without Python install: the script for macOS and Linux, with programs that only pretend, and the tar."""

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from deploy import app

ROOT = Path(__file__).resolve().parent.parent
SHELLS = [shell for shell in (["sh"], ["dash"], ["bash", "--posix"]) if shutil.which(shell[0])]
FAKE_PYTHON = """#!/bin/sh
case $* in
  *version_info*) exit $UNFIT ;;
  "-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python3" && touch "$3/bin/pip" "$3/pyvenv.cfg" ;;
  *install*) for last; do :; done; echo "$last" > "${0%/*}/../installed"; eval "$PIP" ;;
  *) echo "$PYTHONPATH$@" ;;
esac
"""
NEW = "must be a new folder or one of an earlier run, got one with other files"


@pytest.fixture
def install(tmp_path):
    """Run install.sh with a Python that pretends, on a system and a machine that are named; return what it said."""
    (tmp_path / "bin").mkdir()
    for name in "cat chmod cp dirname find ls mkdir mv readlink rm rmdir sh touch".split():
        (tmp_path / "bin" / name).symlink_to(shutil.which(name))

    def run(*words, shell=("sh",), system="Linux", machine="arm64", unfit=0, pip=":", home="höme", ps="", alone=False):
        uname = f'#!/bin/sh\n[ "$1" ] && echo {machine} || echo {system}\n'
        for name, text in (("python3.12", FAKE_PYTHON), ("uname", uname), ("ps", f"#!/bin/sh\necho '{ps}'\n")):
            (tmp_path / "bin" / name).write_text(text)
            (tmp_path / "bin" / name).chmod(0o755)
        place = {"PATH": f"{tmp_path}/bin", "HOME": home and f"{tmp_path}/{home}", "UNFIT": str(unfit), "PIP": pip}
        script = ROOT / "deploy/install.sh"
        script = shutil.copy(script, tmp_path / "bin") if alone else script
        command = [shutil.which(shell[0]), *shell[1:], script, *words]
        return subprocess.run(command, env=place, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize(("system", "studio"), [("Linux", "nmt-studio"), ("Darwin", "nmt-studio.command")])
def test_a_folder_is_made_that_starts(install, tmp_path, shell, system, studio):
    name, home = "a b ü\\100%", {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": "not theirs"}
    folder, done = tmp_path / name, install(f"{name}/", shell=shell, system=system)
    assert (done.returncode, done.stderr, sorted(os.listdir(folder))) == (0, "", ["nmt", studio, "python"])
    assert (folder / "python/installed").read_text() == f"{ROOT}[studio]\n"
    assert os.listdir(folder / "python/bin") == ["python3"], "other programs name a path aside"
    assert f"Double-click {folder}/{studio}," in done.stdout
    subprocess.run([folder / studio, "x y"], env=home, check=True)
    assert (tmp_path / ".cache/nmt/studio.log").read_text() == "-P -m nmt studio x y\n"
    menu = (tmp_path / ".local/share/applications/nmt-studio.desktop").read_text()
    assert '\nExec=sh -c "exec ./nmt-studio"\n' in menu, "GLib finds no program with a percent sign in its path"
    assert f"\nPath={tmp_path}/a b ü\\\\100%\n" in menu


def test_a_starter_tells_why_it_cannot_start(tmp_path):
    """With its folder, or a home folder that can be written, the window had no words, and the menu a wrong entry."""
    folder, home = tmp_path / "a", tmp_path / "home"
    for name, text in (("a/python/bin/python3", "echo broken; exit 3"), ("bin/zenity", 'echo "$*" >> "$SAID"')):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("nmt-studio", "nmt"):
        shutil.copy(ROOT / f"deploy/{name}.sh", tmp_path / name)
    place = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SAID": f"{tmp_path}/said", "HOME": str(home)}
    place["TMPDIR"] = str(tmp_path)

    def said(program):
        done = subprocess.run(["sh", program], env=place, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "cannot" not in done.stderr
        return done.stderr or (tmp_path / "said").read_text().split("--text ")[-1]

    assert f"{tmp_path}: must have python/bin/python3, on a disk whose programs may run" in said(tmp_path / "nmt")
    os.rename(tmp_path / "nmt", folder / "nmt")
    assert f"{tmp_path}: must have nmt, on a disk whose programs may run, got none" in said(tmp_path / "nmt-studio")
    assert not (home / ".local").exists()
    shutil.rmtree(home)
    home.touch()
    shutil.move(tmp_path / "nmt-studio", folder)
    assert said(folder / "nmt-studio").startswith("broken\n")


@pytest.mark.parametrize(
    "pip", ["exit 1", "kill -TERM $PPID; exit 1", "kill -KILL $PPID", "mkdir -p ${0%/*}/../nmt-studio/nmt-studio.sh"]
)
def test_an_update_that_ends_early_leaves_what_was_there(install, tmp_path, pip):
    folder, wheel = tmp_path / "höme/nmt-studio", shutil.copy(ROOT / "LICENSE", tmp_path / "x.whl")
    installed = folder / "python/installed"
    assert install().returncode == 0 and installed.read_text() == f"{ROOT}[studio]\n"
    assert install(folder, wheel, pip=pip).returncode != 0 and installed.read_text() == f"{ROOT}[studio]\n"
    os.rename(folder / "python", folder / ".old")  # ended between two renames
    (folder / ".new.1").mkdir()
    done = install(folder, wheel, pip="exit 1")
    assert done.stderr.startswith(f"install.sh: {folder}: must be filled, got the error above; ")
    assert done.returncode == 1 and installed.read_text() == f"{ROOT}[studio]\n"
    assert install(folder, wheel).returncode == 0 and installed.read_text() == f"{wheel}[studio]\n"
    assert sorted(os.listdir(folder)) == ["nmt", "nmt-studio", "python"]


@pytest.mark.parametrize(
    ("theirs", "ps", "said"),
    [
        ("python/pyvenv.cfg", "", NEW),
        (".old/photos", "", NEW),
        (".new.1/bin", "sh install.sh", "must be free, got another run that"),
        ("python/.nmt-studio", "/mine/python/bin/python3 -P -m nmt studio", "got a studio or a training"),
    ],
)
def test_what_is_in_a_folder_or_runs_from_it_stays(install, tmp_path, theirs, ps, said):
    """An environment called python, and a folder called .old, were deleted."""
    (tmp_path / "mine" / theirs).mkdir(parents=True)
    done = install("mine", ps=ps and ps.replace("/mine", f"{tmp_path}/mine"))
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and said in done.stderr
    assert [one.relative_to(tmp_path / "mine").as_posix() for one in (tmp_path / "mine").glob("*/*")] == [theirs]


@pytest.mark.parametrize(
    ("words", "named", "said"),
    [
        ((), {"unfit": 1}, "must have Python 3.11 to 3.14 with venv, got none; install "),
        ((), {"unfit": 1, "system": "Darwin"}, "install it from https://www.python.org/downloads/macos, and then"),
        ((), {"system": "Darwin", "machine": "x86_64"}, "must be a Mac with Apple's processor, got x86_64"),
        ((), {"system": "FreeBSD"}, "must be macOS or Linux, got FreeBSD"),
        ((ROOT,), {}, f"{ROOT}: {NEW}"),
        ((), {"home": ""}, "must have a home folder or another, got no HOME; name one: sh "),
        ((), {"alone": True}, "must be deploy/install.sh of a checkout, got the script alone"),
        (("--help",), {}, "[FOLDER [WHEEL]], got: --help"),
        (("My", "own", "folder"), {}, "got: My own folder; put quotes around spaces"),
        (("bin/uname/x",), {}, "bin/uname/x: must be a folder to write in, got: Not a directory; name another"),
        (("x", "y.whl"), {}, "y.whl: must be a wheel, got no such file"),
    ],
)
def test_what_is_missing_is_said_in_a_line(install, tmp_path, words, named, said):
    done = install(*words, **named)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and said in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == ["bin"]


def test_the_archive_for_linux_brings_its_own_python_and_loader(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    root, folder, tar = tmp_path / "root", tmp_path / "made", tmp_path / "made.tar.gz"
    python, libraries = "usr/lib/python3.11", "lib/x86_64-linux-gnu"
    empty = [f"{python}/os.py", f"{python}/test/big.py", "usr/share/doc/libz/copyright", "usr/bin/python3.11"]
    loader = {f"{libraries}/ld-linux-x86-64.so.2": '#!/bin/sh\nprintf "%s|" "$@"'}
    for name, text in {**dict.fromkeys([*empty, f"{libraries}/libz.so.1.2"], ""), **loader}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / python / "sitecustomize.py").symlink_to("/etc/python3.11/no-such-file.py")
    (root / libraries / "libz.so.1").symlink_to("libz.so.1.2")
    app.own_python(root, folder / "python")
    shutil.copy(ROOT / "deploy/nmt.sh", folder / "nmt")
    for one in (tar, tmp_path / "again.tar.gz"):
        app.archive(folder, one)
    assert tar.read_bytes() == one.read_bytes()
    with tarfile.open(tar) as opened:
        opened.extractall(tmp_path / "ü b", filter="data")
        inside = "bin/python3 lib/ld.so lib/libz.so.1 lib/python3.11/os.py lib/python3.11/python licences/libz"
        names = [*(f"nmt/python/{name}" for name in inside.split()), "nmt/nmt"]
        assert opened.getnames() == names, "the starter is last: a folder that is not complete has none"
    (tmp_path / "link").symlink_to(tmp_path / "ü b/nmt/nmt")
    said = subprocess.run([tmp_path / "link", "train", "a b"], capture_output=True, text=True, check=True).stdout
    at = tmp_path / "ü b/nmt/python"
    words = f"--argv0|{at}/bin/python3|--library-path|{at}/lib|{at}/lib/python3.11/python|-E|-s|-X|utf8|"
    assert said == words + "-P|-m|nmt|train|a b|"
    os.rename(tmp_path / "ü b", tmp_path / "ü:b")
    done = subprocess.run([tmp_path / "ü:b/nmt/nmt"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "must have no : ; or $ in its path" in done.stderr
