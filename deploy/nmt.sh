#!/bin/sh
# nmt COMMAND, with the Python in this folder.
self=$(readlink -f "$0" 2> /dev/null || printf %s "$0")
here=$(cd "$(dirname "$self")" && pwd -P) || exit 1
if [ ! -x "$here/python/bin/python3" ]; then
  printf '%s\n' "$here: must have python/bin/python3, on a disk whose programs may run, got none; install or unpack again" >&2
  exit 1
fi
unset PYTHONHOME PYTHONPATH # of other programs
export NMT_PROGRAM="$0"
exec "$here/python/bin/python3" -P -m nmt "$@"
