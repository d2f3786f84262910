#!/usr/bin/env bash
# bare.sh COMMAND… runs a command with a PATH of exactly these: Go's tool chain, git, make, Python, a C compiler where
# there is one, and the programs of the base system. On Debian those are the packages of priority "required". Elsewhere
# no one knows them: the command runs with the PATH as it is, and that is said.
set -euo pipefail

if ! command -v dpkg-query >/dev/null; then
    echo "not run: the check that no other program is used, since this is not Debian" >&2
    exec "$@"
fi
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
dpkg-query -W -f '${Priority} ${Package}\n' | sed -n 's/^required //p' | xargs dpkg -L | grep -E '^(/usr)?/s?bin/[^/]+$' |
    while read -r program; do ln -sf "$program" "$bin/"; done
for tool in awk git make gcc cc as ld clang; do
    path=$(command -v "$tool") && ln -sf "$path" "$bin/"
done
ln -sf "$(go env GOROOT)/bin/go" "$(go env GOROOT)/bin/gofmt" "$bin/"
# Where python3 is a wrapper, the program that it starts.
ln -sf "$(python3 -c 'import sys; print(sys.executable)')" "$bin/python3"
PATH=$bin "$@"
