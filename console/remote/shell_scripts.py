"""The scripts of shell mode: POSIX `sh` and what every Linux has (`stat`, `sha256sum`, `grep`, `git`)."""

from __future__ import annotations

_PATHS = r"""
home() { case $1 in '~') p=$HOME;; '~/'*) p=$HOME/${1#'~/'};; *) p=$1;; esac; }
there() { n=0; for a; do home "$a"; if [ -e "$p" ] || [ -h "$p" ]; then return 0; fi; n=$((n + 1)); done; n=0; home "$1"; }
"""

HELLO = r"""
s=${XDG_STATE_HOME:-}
case $s in /*) ;; *) s=$HOME/.local/state;; esac
printf '%s\0' "$(uname -n)" "$(id -un)" "$(id -u)" "$HOME" "$(uname -sr)" "$s/tokwatt" \
  "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)" "$(date +%s)"
"""

READ = (
    _PATHS
    + r"""
limit=$1; wants=$2; shift 2
there "$@"
if [ -d "$p" ]; then exit 21; fi
if ! [ -e "$p" ]; then exit 2; fi
if ! [ -r "$p" ]; then exit 13; fi
size=$(stat -L -c %s -- "$p") || exit 1
mtime=$(stat -L -c %Y -- "$p"); sha=; letter=
case $wants in 1?) if [ "$size" -le "$limit" ]; then sha=$(sha256sum < "$p"); sha=${sha%% *}; fi;; esac
case $wants in ?1) d=$(readlink -f -- "$p")
  letter=$(GIT_OPTIONAL_LOCKS=0 git -C "${d%/*}/" status --porcelain=v1 -- ":(literal)${d##*/}" 2>/dev/null | cut -c1-2 | head -n 1);; esac
printf '%s\0' "$n" "$size" "$mtime" "$sha" "$letter"
head -c "$limit" < "$p"
"""
)

LIST = (
    _PATHS
    + r"""
there "$@"
if ! [ -e "$p" ]; then exit 2; fi
if ! [ -d "$p" ]; then exit 20; fi
if ! [ -r "$p" ] || ! cd "$p"; then exit 13; fi
printf '%s\0%s\0' "$p" "$(git rev-parse --show-prefix 2>/dev/null)"
for f in * .[!.]* ..?*; do
  if ! [ -e "$f" ] && ! [ -h "$f" ]; then continue; fi
  t=; m=
  if [ -h "$f" ]; then t=$(readlink -- "$f"); m=$(stat -L -c %f -- "$f" 2>/dev/null); fi
  set -- $(stat -c '%f %s %Y' -- "$f" 2>/dev/null)
  printf '%s\0' "$f" "$1" "$2" "$3" "$t" "$m"
done
printf '\0'
GIT_OPTIONAL_LOCKS=0 git status --porcelain=v1 -z -- . 2>/dev/null || true
"""
)

STAT = (
    _PATHS
    + r"""
for a; do
  home "$a"
  if [ -e "$p" ] || [ -h "$p" ]; then
    w=0; d=0; r=$(readlink -f -- "$p"); f=$(dirname -- "$p")
    if [ -w "$p" ]; then w=1; fi
    if [ -w "$f" ]; then d=1; fi
    printf '%s %s %s %s' "$(stat -c '%f %s %Y %u %g' -- "$p")" "$w" "$d" "$r"
  fi
  printf '\0\0'
done
"""
)

HASH = (
    _PATHS
    + r"""
for a; do
  home "$a"; h=
  if [ -f "$p" ]; then h=$(sha256sum < "$p") || exit 13; h=${h%% *}; fi
  printf '%s\n' "$h"
done
"""
)

CHOOSE = (
    _PATHS
    + r"""
# paths, each with its stand-ins behind it and a -- at the end
chosen=; first=
for a; do
  if [ "$a" = -- ]; then
    if [ -z "$chosen" ]; then printf '%s\n' "$first: No such file or directory" >&2; exit 2; fi
    chosen=; first=; continue
  fi
  home "$a"; first=${first:-$p}
  if [ -z "$chosen" ] && [ -e "$p" ]; then chosen=1; printf '%s\0' "$p"; fi
done
"""
)

GIT = (
    _PATHS
    + r"""
home "$1"; shift
if ! [ -d "$p" ]; then p=$(dirname -- "$p"); fi
if ! [ -d "$p" ]; then exit 2; fi
LC_ALL=C GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 exec git -C "$p" "$@"
"""
)

SWAP = (
    _PATHS
    + r"""
home "$2"; root=$(readlink -f -- "$p") || exit 2
home "$1"; folder=$(readlink -f -- "${p%/*}") || exit 43
case $folder/ in "$root"/*) ;; *) exit 41;; esac
if ! [ -d "$folder" ]; then exit 43; fi
path=$(readlink -f -- "$p") || exit 2
case $path in "$root"/*) ;; *) exit 41;; esac
sum() { if ! [ -e "$1" ]; then s=; return 0; fi; s=$(sha256sum < "$1") || return 1; s=${s%% *}; }
same() { sum "$path" || exit 13; if [ "$s" != "$1" ]; then printf '%s' "$s"; exit 40; fi; }
if [ -n "$3" ] && ! [ -f "$path" ]; then exit 2; fi
if [ -n "$3" ] && ! [ -w "$path" ]; then exit 13; fi
if ! [ -w "$folder" ]; then exit 13; fi
same "$3"
if [ -z "$4" ]; then
  rm -f -- "$path" || exit 1
else
  temp="${path%/*}/.${path##*/}.tokwatt-$$"
  trap 'rm -f -- "$temp"' EXIT
  if [ -n "$3" ]; then cp -p -- "$path" "$temp" || exit 1; fi
  cat > "$temp" || exit 1
  sum "$temp" || exit 13
  if [ "$s" != "$4" ]; then exit 42; fi
  sync "$temp" 2>/dev/null || sync
  same "$3"
  if [ -n "$3" ]; then mv -f -- "$temp" "$path" || exit 1; else mv -n -- "$temp" "$path" || exit 1; fi
fi
sync "${path%/*}" 2>/dev/null || sync
sum "$path" || exit 13
if [ "$s" != "$4" ]; then exit 42; fi
"""
)

SNAPSHOT = (
    _PATHS
    + r"""
home "$1"; root=$(readlink -f -- "$p") || exit 2; shift
if ! [ -d "$root" ]; then exit 2; fi
printf '%s\0' "$root"
for a; do
  f=$(readlink -f -- "$root/$a")
  case $f in "$root"/*) ;; *) f=;; esac
  if [ -n "$f" ] && [ -f "$f" ] && [ -r "$f" ]; then
    w=; if ! [ -w "$f" ] || ! [ -w "${f%/*}" ]; then w='no right to write'; fi
    b=$(git -C "$root" ls-tree HEAD -- "$a" 2>/dev/null | cut -d' ' -f3 | cut -f1)
    printf '%s\0' "$(stat -c %s -- "$f")" "$(stat -c %Y -- "$f")" "$(stat -c %h -- "$f")" "$f" "$w" "$b"
    cat < "$f"
  else
    printf '\0'
  fi
done
"""
)

PACKAGE = (
    _PATHS
    + r"""
home "$1"; case $p in /*) ;; *) p=$PWD/$p;; esac; p=${p%/}
if ! [ -d "$p" ]; then exit 2; fi
if ! [ -e "$p/__init__.py" ]; then exit 44; fi
printf '%s\0' "$p"
for f in "${p%/*}"/*.dist-info/METADATA "${p%/*}"/*.egg-info/PKG-INFO; do
  if ! [ -f "$f" ] || grep -q '"editable": true' "${f%/*}/direct_url.json" 2>/dev/null; then continue; fi
  printf '%s\0%s\0%s\0' "${f%/*}" "$(grep -m1 '^Version: ' "$f" | cut -d' ' -f2)" \
    "$(head -n1 "${f%/*}/top_level.txt" 2>/dev/null)"
done
"""
)

FIND = r"""
cd "$1" || exit 2; shift
for a; do find . -name "$a" -type f 2>/dev/null | head -n 20; printf '\0'; done
"""
