#!/bin/sh
# Open the studio, and put it into the menu of programs. Without a terminal, a window shows why it could not start.
self=$(readlink -f "$0" 2> /dev/null || printf %s "$0")
here=$(cd "$(dirname "$self")" && pwd -P) || exit 1
if [ "$(uname)" = Linux ]; then
  menu=${XDG_DATA_HOME:-$HOME/.local/share}/applications
  quoted=$(printf %s "$here" | sed 's/["`$]/\\\\&/g; s/%/%%/g')
  mkdir -p "$menu"
  cat > "$menu/nmt-studio.desktop" << END
[Desktop Entry]
Type=Application
Name=Translator Studio
TryExec=$here/nmt-studio
Exec="$quoted/nmt-studio"
Icon=$here/icon.png
Categories=Education;Languages;
END
fi
[ ! -t 1 ] || exec "$here/nmt" studio "$@"
log=${XDG_CACHE_HOME:-$HOME/.cache}/nmt/studio.log
mkdir -p "$(dirname "$log")"
"$here/nmt" studio "$@" > "$log" 2>&1 && exit
for show in "zenity --error --no-markup --text" "kdialog --error" xmessage "notify-send --"; do
  command -v "${show%% *}" > /dev/null && $show "$(tail -n 9 "$log")
$log" && break
done
exit 1
