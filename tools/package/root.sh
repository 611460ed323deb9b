#!/bin/sh
# Lays out below ROOT what the .deb and the .rpm install: a virtual environment of the system's Python in /usr/lib/iodyno, with the
# wheel of dist/ and all that it needs; its commands; manual pages and completion scripts. PIP=pip root.sh PYTHON ROOT
set -eu
python=$1 root=$2
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
lab=$root/usr/lib/iodyno
site=$lab/lib/python$version/site-packages
mkdir -p "$site" "$root/usr/bin"
$PIP install --target "$site" dist/*.whl
mv "$site/share" "$root/usr/share"
mv "$site/bin" "$lab/bin"
ln -s "/usr/bin/python$version" "$lab/bin/python"
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$lab/pyvenv.cfg"
for command in iodyno iodyno-agent; do
    sed -i '1s|.*|#!/usr/lib/iodyno/bin/python -I|' "$lab/bin/$command"
    ln -s "../lib/iodyno/bin/$command" "$root/usr/bin/$command"
done
