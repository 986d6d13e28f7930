#!/bin/sh
# Open the studio, and put it into the menu of programs. Without a terminal, a window shows why it could not start.
self=$(readlink -f "$0" 2> /dev/null || printf %s "$0")
here=$(cd "$(dirname "$self")" && pwd -P) || exit 1
home=${HOME:-/nonexistent}
case $(uname)$here in *[[:cntrl:]]*) ;; Linux*)
  menu=${XDG_DATA_HOME:-$home/.local/share}/applications
  place=$(printf %s "$here" | sed 's/\\/\\\\/g')
  [ -x "$here/nmt" ] && { mkdir -p "$menu" && cat > "$menu/nmt-studio.desktop"; } 2> /dev/null << END
[Desktop Entry]
Type=Application
Name=Translator Studio
TryExec=$place/nmt-studio
Path=$place
Exec=sh -c "exec ./nmt-studio"
Icon=$place/icon.png
Categories=Education;Languages;
END
esac
start() {
  if [ -x "$here/nmt" ]; then "$here/nmt" studio "$@"; return; fi
  printf '%s\n' "$here: must have nmt, on a disk whose programs may run, got none; unpack or install again, or make a link" >&2
  return 1
}
if [ -t 1 ]; then start "$@"; exit; fi
log=${XDG_CACHE_HOME:-$home/.cache}/nmt/studio.log
{ mkdir -p "$(dirname "$log")" && echo > "$log"; } 2> /dev/null || log=$(mktemp) || log=/dev/null
start "$@" > "$log" 2>&1 && exit
for show in "zenity --error --no-markup --text" "kdialog --error" xmessage "notify-send --"; do
  command -v "${show%% *}" > /dev/null && $show "$(tail -n 9 "$log")
$log" && exit 1
done 2> /dev/null
cat "$log" >&2
exit 1
