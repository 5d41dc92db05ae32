# shellcheck shell=bash
# What the set-up scripts share; sourced. Their lines begin with the name of the script that says them.

say() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Installs Debian packages when root, else prints the one line that does.
install_packages() {
    local line="apt-get update && apt-get install -y --no-install-recommends $*"
    have apt-get || die "missing: $* (Debian names); install them with this system's package manager"
    if [ "$(id -u)" -ne 0 ]; then
        say "missing: $*. Run this once, then again what you just ran:"
        printf "sudo sh -c '%s'\n" "$line" >&2
        exit 1
    fi
    say "installing $*"
    DEBIAN_FRONTEND=noninteractive sh -c "$line" >&2
}
