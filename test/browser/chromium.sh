#!/usr/bin/env bash
# Prints the path of a Chromium: $CHROMIUM, else one that is installed, else Debian's package, which root installs here.
set -euo pipefail

if [ -n "${CHROMIUM:-}" ]; then
    command -v "$CHROMIUM" || { echo "CHROMIUM=$CHROMIUM is no program" >&2; exit 1; }
    exit
fi
for name in chromium chromium-browser google-chrome-stable google-chrome headless_shell; do
    ! command -v "$name" || exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing Debian's chromium" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >&2
    command -v chromium && exit
fi
echo "the tests of the page need Chromium: install it (Debian: apt-get install chromium), or name one in CHROMIUM" >&2
exit 1
