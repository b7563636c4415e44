#!/bin/sh
# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
# Prints an interpreter that can build and run the package, newest first. Each candidate is run: a
# name alone may belong to a shim of a version that is not installed.
# Usage: [PYTHON=interpreter] find_python.sh [LOWEST [HIGHEST]], with versions such as 3.11.
set -u
lowest=${1:-3.11}
highest=${2:-3.14} # the newest that jaxlib 0.10, a build requirement, has a wheel for

# Prints the interpreter's own path and exits 0 if it is suitable; else prints what is missing.
check='
import sys
def version(text):
    return tuple(int(part) for part in text.split("."))
def main(lowest, highest):
    if sys.implementation.name != "cpython":
        return "not CPython"
    if not version(lowest) <= sys.version_info[:2] <= version(highest):
        return "version %d.%d" % sys.version_info[:2]
    import importlib.util, os, sysconfig
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "free-threaded"
    for module in ("venv", "ensurepip"):
        if importlib.util.find_spec(module) is None:
            return "no module %s (on Debian: apt-get install python3-venv)" % module
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return "no Python.h (on Debian: apt-get install python3-dev)"
reason = main(*sys.argv[1:])
print(reason or sys.executable)
sys.exit(1 if reason else 0)
'

rejected=
try() {
  if answer=$("$1" -c "$check" "$lowest" "$highest" 2>/dev/null </dev/null); then
    printf '%s\n' "$answer"
    exit 0
  fi
  rejected="$rejected
  $1: ${answer:-does not run}"
}

fail() {
  echo "find_python: a CPython from $lowest to $highest with venv, pip and headers must be" \
    "installed; found:$rejected" >&2
  echo "Install one, or name one: make PYTHON=/path/to/python3 ..." >&2
  exit 1
}

if [ -n "${PYTHON:-}" ]; then
  found=$(command -v "$PYTHON") || found=$PYTHON
  try "$found"
  fail
fi

try_on_path() {
  old_ifs=$IFS
  IFS=:
  for folder in $PATH; do
    IFS=$old_ifs
    if [ -x "$folder/$1" ]; then try "$folder/$1"; fi
  done
  IFS=$old_ifs
}

for name in python3.14 python3.13 python3.12 python3 python3.11; do try_on_path "$name"; done
for version in 3.14 3.13 3.12 3.11; do
  for candidate in \
    "${PYENV_ROOT:-${HOME:-/root}/.pyenv}"/versions/$version*/bin/python3 \
    "${HOME:-/root}"/.local/bin/python$version \
    /usr/local/bin/python$version /usr/bin/python$version /opt/python*/bin/python$version; do
    if [ -x "$candidate" ]; then try "$candidate"; fi
  done
done
fail
