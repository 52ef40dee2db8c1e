#!/bin/sh
# The scripts pass shellcheck (skipped where it is not installed), say --help, and refuse nonsense.
set -eu
cd "$(dirname "$0")/.."
failed=0
complain() { echo "$1" >&2; failed=1; }

scripts=$(grep -lE -d skip '^#!/bin/(ba)?sh' check demo .ci/run tools/* tests/*.sh tests/nightly \
  2> /dev/null)
if command -v shellcheck > /dev/null; then
  # shellcheck disable=SC2086  # a list of names
  shellcheck $scripts || complain 'shellcheck found something'
else
  echo 'shellcheck is not installed: not run'
fi
for script in $scripts tools/fetch tools/make_gguf tools/peers; do
  [ -x "$script" ] || complain "$script cannot be run"
done
for script in ./check ./demo tests/nightly tools/install tools/fetch tools/make_gguf tools/peers; do
  "$script" --help | grep -q Usage || complain "$script --help does not show its usage"
  status=0
  "$script" --nonsense > /dev/null 2>&1 || status=$?
  [ "$status" -eq 2 ] || complain "$script --nonsense: exit status $status, not 2"
done

# tools/install, without root and with a package missing, prints one command and exits with 2.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/tools"
cp tools/install "$scratch/tools/"
printf 'build  no-such-package-here  a comment\ncheck  nor-this-one\n' > "$scratch/tools/packages.txt"
printf '#!/bin/sh\necho 1000\n' > "$scratch/bin/id"
chmod +x "$scratch/bin/id"
if command -v dpkg-query > /dev/null; then
  status=0
  printed=$(PATH="$scratch/bin:$PATH" "$scratch/tools/install" build 2> /dev/null) || status=$?
  [ "$status" -eq 2 ] || complain "tools/install without root: exit status $status, not 2"
  case "$printed" in
    *apt-get\ install*no-such-package-here) ;;
    *) complain "tools/install without root printed: $printed" ;;
  esac
  [ "$(echo "$printed" | wc -l)" -eq 1 ] || complain 'tools/install prints more than one command'
fi
exit $failed
