#!/usr/bin/env bash
# Installs what checks of the chart and of the page need and is missing: a C compiler, promtool and npm. It needs root
# on Debian; elsewhere it says what is missing, and what needs that says so too.
set -euo pipefail

missing=()
# The race detector needs a C compiler.
command -v gcc >/dev/null || command -v clang >/dev/null || missing+=(gcc libc6-dev)
# promtool tests the alerts of the chart.
command -v promtool >/dev/null || missing+=(prometheus)
# npm fetches axe-core, which looks over the page.
command -v npm >/dev/null || missing+=(npm)
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
    echo "not installed, going on without: ${missing[*]}"
fi
