#!/bin/sh
# Install nmt and its studio into a folder of its own, on macOS and Linux:
#
#     sh deploy/install.sh [FOLDER [WHEEL]]
#
# FOLDER is nmt-studio in the home folder if none is named. What is installed is the checkout that this file is part of, or a
# wheel. Another run updates it. To remove all, delete the folder: projects lie in Documents/Translators.
set -eu
fail() { printf 'install.sh: %s\n' "$1" >&2 || :; exit 1; }
unset CDPATH PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX # of other programs
export PIP_USER=0

case $#${1-} in 0 | [12][!-]*) ;; *) fail "must be sh $0 [FOLDER [WHEEL]], got: $*; put quotes around spaces" ;; esac
[ -n "${1:-${HOME-}}" ] || fail "must have a home folder or another, got no HOME; name one: sh $0 FOLDER"
checkout=$(cd "$(dirname "$0")/.." && pwd -P)
[ -e "$checkout/deploy/nmt-studio.sh" ] || fail "$0: must be deploy/install.sh of a checkout, got the script alone; run it there"
folder=${1:-${HOME-}/nmt-studio} what=${2:-$checkout} system=$(uname)
case $folder in /*) ;; *) folder=$PWD/$folder ;; esac
case $what in /*) ;; *) what=$PWD/$what ;; esac
[ -e "$what" ] || fail "$what: must be a wheel, got no such file; name no second argument for the checkout"
[ -e "$folder/python/.nmt-studio" ] || [ -e "$folder/.old/.nmt-studio" ] ||
  [ -z "$(find "$folder/." ! -name . -prune ! -name '.new.[0-9]*' ! -name .DS_Store 2> /dev/null)" ] ||
  fail "$folder: must be a new folder or one of an earlier run, got one with other files; name another: sh $0 FOLDER"
case $system in
  Linux) studio=nmt-studio ;;
  Darwin) studio=nmt-studio.command
    [ "$(uname -m)" = arm64 ] || fail "must be a Mac with Apple's processor, got $(uname -m); LLVM has no package for it" ;;
  *) fail "must be macOS or Linux, got $system; docs/windows.md is for Windows" ;;
esac

# The first Python that fits. That of macOS itself is too old, and asks to install Xcode.
for version in 13 12 14 11; do PATH=$PATH:/Library/Frameworks/Python.framework/Versions/3.$version/bin; done
PATH=$PATH:/opt/homebrew/bin:/usr/local/bin:${HOME-}/.local/bin
python=
for name in python3.13 python3.12 python3.14 python3.11 python3; do
  if path=$(command -v "$name") && [ "$system $path" != "Darwin /usr/bin/python3" ] &&
    "$path" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2> /dev/null
  then python=$path && break; fi
done
if [ -z "$python" ] && ! command -v uv > /dev/null; then
  remedy="install python3 and python3-venv by the system's program for software"
  if [ "$system" = Darwin ]; then remedy="install it from https://www.python.org/downloads/macos"
  elif command -v apt-get > /dev/null; then remedy="run: sudo apt-get install python3 python3-venv (if that is older: https://docs.astral.sh/uv)"
  elif command -v dnf > /dev/null; then remedy="run: sudo dnf install python3.12"
  elif command -v zypper > /dev/null; then remedy="run: sudo zypper install python312"
  elif command -v pacman > /dev/null; then remedy="run: sudo pacman -S python"; fi
  fail "must have Python 3.11 to 3.14 with venv, got none; $remedy, and then this again"
fi

# Made aside; a run that is interrupted leaves what was there.
new=$folder/.new.$$
trap 'rm -rf "$new" 2> /dev/null; rmdir "$folder" 2> /dev/null || true' EXIT
trap 'fail "$folder: ended early; what was there is unchanged"' HUP INT TERM
why=$(mkdir -p "$new" 2>&1) || fail "$folder: must be a folder to write in, got: ${why##*: }; name another: sh $0 FOLDER"
folder=$(cd "$folder" && pwd -P) && new=$folder/.new.$$ old=$folder/.old
for other in "$folder"/.new.[0-9]*; do
  [ "$other" != "$new" ] || continue
  case $(ps -p "${other##*.}" -o args 2> /dev/null) in *"${0##*/}"*)
    fail "$folder: must be free, got another run that works there, process ${other##*.}; wait until it has ended" ;;
  esac
  rm -rf "$other"
done
case $(ps -A -o args 2> /dev/null) in *"$folder/python/"*)
  fail "$folder: must be free, got a studio or a training that runs from it; end it, and then this again" ;;
esac
if ! cp "$0" "$new/try" 2> /dev/null || ! chmod +x "$new/try" || [ ! -x "$new/try" ]; then
  fail "$folder: must be on a disk with space, from which programs may run, got another; name one: sh $0 FOLDER"
fi
rm "$new/try"
if [ -e "$folder/python" ]; then rm -rf "$old"; elif [ -e "$old" ]; then mv "$old" "$folder/python"; fi
must() { "$@" || fail "$folder: must be filled, got the error above; see to network and space, and then this again"; }
printf '%s\n' "Installing into $folder; this takes some minutes, a network, and 500 MB ..."
if [ -n "$python" ]; then
  must "$python" -m venv "$new"
  must "$new/bin/python3" -m pip install --quiet --disable-pip-version-check --only-binary=:all: "${what}[studio]"
else
  must uv venv --quiet --python '>=3.11,<3.15' "$new"
  must uv pip install --quiet --python "$new/bin/python3" --only-binary llvmlite "${what}[studio]"
fi
must "$new/bin/python3" -P -c 'import nmt.studio.server'
must touch "$new/.nmt-studio"
find "$new/bin" -type f ! -name 'python*' -exec rm -f {} + # they name $new
for name in nmt nmt-studio; do
  must cp "$checkout/deploy/$name.sh" "$new/$name"
  chmod +x "$new/$name"
done
trap '' HUP INT TERM
[ ! -e "$folder/python" ] || mv "$folder/python" "$old"
mv "$new" "$folder/python"
mv -f "$folder/python/nmt" "$folder/nmt"
mv -f "$folder/python/nmt-studio" "$folder/$studio"
rm -rf "$old"
printf '%s\n' "Done. Double-click $folder/$studio, or run $folder/nmt studio. Projects: Documents/Translators of your home folder."
