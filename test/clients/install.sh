#!/usr/bin/env bash
# Installs what tests of the libraries need and is missing: Node with npm, a JDK, what pip builds with, curl and jq. It
# needs root on Debian; elsewhere it says what is missing. Then those tests fail, and say so too.
set -euo pipefail

missing=()
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
command -v javac >/dev/null || missing+=(default-jdk-headless)
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
python3 -c 'import setuptools, wheel' 2>/dev/null || missing+=(python3-setuptools python3-wheel)
command -v curl >/dev/null || missing+=(curl)
command -v jq >/dev/null || missing+=(jq)
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
else
    echo "not installed, going on without: ${missing[*]}"
fi
