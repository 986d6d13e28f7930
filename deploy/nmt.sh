#!/bin/sh
# nmt COMMAND, with the Python in this folder.
self=$(readlink -f "$0" 2> /dev/null || printf %s "$0")
here=$(cd "$(dirname "$self")" && pwd -P) || exit 1
exec "$here/python/bin/python3" -P -m nmt "$@"
