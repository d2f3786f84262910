#!/usr/bin/env bash
# rig.sh RIG DIR: makes DIR the same rig as RIG, for use inside its namespaces. From outside its scripts enter them
# first, by a process ID that means nothing within; here their `in` runs a command as it is. DIR/load and DIR/nodectl
# are then what KUBE_LOAD and KUBE_NODECTL want: the rig numbers its nodes, and calls them n1, n2, …
set -euo pipefail

rig=$(cd "$1" && pwd)
mkdir -p "$2"
dir=$(cd "$2" && pwd)

for entry in "$rig"/*; do
    ln -sfn "$entry" "$dir/$(basename "$entry")"
done
for script in load nodectl; do
    rm -f "$dir/$script"
    sed "s#$rig\([^A-Za-z0-9]\)#$dir\1#g" "$rig/$script" >"$dir/$script"
done
mv "$dir/nodectl" "$dir/nodectl-by-number"
sed -i 's#/nodectl\b#/nodectl-by-number#g' "$dir/nodectl-by-number" "$dir/load"
rm -f "$dir/in"
printf '#!/bin/sh\nexec "$@"\n' >"$dir/in"
cat >"$dir/nodectl" <<'X'
#!/usr/bin/env bash
verb=$1 node=$2
shift 2
exec "$(dirname "$0")/nodectl-by-number" "$verb" "${node#n}" "$@"
X
chmod +x "$dir/load" "$dir/nodectl" "$dir/nodectl-by-number" "$dir/in"
