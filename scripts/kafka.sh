#!/usr/bin/env bash
# Makes sure that Docker runs and that it has the image of a Kafka broker. Returns at once when everything is there.
#
#   scripts/kafka.sh
#
# 1. Docker: installed with apt-get when it is missing, started when it does not answer; what it publishes is then bound
#    to 127.0.0.1.
# 2. The official image apache/kafka of the version below, where it can be pulled.
# 3. Elsewhere the same name is built from Debian's packages and the broker's jars, which Maven brings; everything is kept
#    in ~/.cache/rehome/kafka, so that the next Docker loads it in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

image=apache/kafka:4.1.2
recipe_dir=tests/kafka-image
cache="$HOME/.cache/rehome/kafka"
base=rehome/kafka-base

# shellcheck source=scripts/said.sh
. scripts/said.sh

# A Docker that was killed leaves files with its process ids, and a new one refuses to start beside a number that is in
# use again, or that nobody has waited for.
forget_killed() {
    local file pid
    for file in /var/run/docker.pid /var/run/docker/containerd/containerd.pid; do
        [ -s "$file" ] || continue
        pid="$(cat "$file")"
        if ! grep -qsE '^(dockerd|containerd)$' "/proc/$pid/comm" || grep -qs '^State:.*zombie' "/proc/$pid/status"; then
            rm -f "$file"
        fi
    done
}

start_docker() {
    local reason
    if reason="$(docker info 2>&1)"; then return; fi
    [ "$(id -u)" -eq 0 ] || die "Docker does not answer, and only root can start it. Run: sudo systemctl start docker
$(tail -n 1 <<<"$reason")"
    local -a missing=()
    have dockerd || missing+=(docker.io)
    have iptables || missing+=(iptables)
    [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
    say "starting Docker (its log: $cache/dockerd.log)"
    forget_killed
    # The lock of this script is not handed on: Docker outlives it.
    setsid dockerd --ip 127.0.0.1 >"$cache/dockerd.log" 2>&1 9>&- </dev/null &
    local docker_pid=$!
    local _
    for _ in $(seq 60); do
        if docker info >/dev/null 2>&1; then return; fi
        kill -0 "$docker_pid" 2>/dev/null || break
        sleep 0.5
    done
    tail -n 20 "$cache/dockerd.log" >&2
    die "Docker did not start: see the lines above"
}

# The label is empty for the official image, which is taken as it is.
image_is_there() {
    local label
    label="$(docker image inspect --format '{{index .Config.Labels "rehome.recipe"}}' "$image" 2>/dev/null)" || return 1
    case "$label" in "" | "<no value>" | "$recipe") return 0 ;; *) return 1 ;; esac
}

# The mirror that this machine's own package lists name.
debian_mirror() {
    local file found
    for file in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/ubuntu.sources; do
        if [ -f "$file" ]; then
            found="$(sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' "$file" | head -n 1)"
            [ -z "$found" ] || { printf '%s\n' "$found"; return; }
        fi
    done
    [ ! -f /etc/apt/sources.list ] ||
        sed -n 's/^deb[[:space:]]\{1,\}\(\[[^]]*\][[:space:]]*\)\{0,1\}\([^[:space:]]*\).*/\2/p' /etc/apt/sources.list | head -n 1
}

make_base() {
    local mirror suite
    [ ! -f "$cache/base.tar" ] || return 0
    [ "$(id -u)" -eq 0 ] || die "only root can build a base image (debootstrap). Run once: sudo HOME=$HOME scripts/kafka.sh"
    have debootstrap || install_packages debootstrap
    mirror="$(debian_mirror)"
    suite="$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)"
    [ -n "$mirror" ] && [ -n "$suite" ] || die "found no Debian mirror in /etc/apt or no VERSION_CODENAME in /etc/os-release"
    say "building a base image of $suite with Java (about a minute, once)"
    debootstrap --variant=minbase --include=default-jre-headless "$suite" "$scratch/rootfs" "$mirror" >"$cache/debootstrap.log" 2>&1 ||
        { tail -n 20 "$cache/debootstrap.log" >&2; die "debootstrap failed: see the lines above"; }
    rm -rf "$scratch"/rootfs/var/cache/apt/* "$scratch"/rootfs/var/lib/apt/lists/*
    tar -C "$scratch/rootfs" -c . >"$scratch/base.tar"
    mv "$scratch/base.tar" "$cache/base.tar"
}

fetch_jars() {
    [ ! -d "$jars" ] || return 0
    have mvn || install_packages maven
    say "fetching the broker's jars with Maven"
    mvn -q -B -f "$recipe_dir/pom.xml" dependency:copy-dependencies -DincludeScope=runtime \
        "-DoutputDirectory=$scratch/libs" >&2 || die "Maven could not fetch the broker's jars: see the lines above"
    mv "$scratch/libs" "$jars"
}

build_image() {
    make_base
    fetch_jars
    docker image inspect "$base" >/dev/null 2>&1 || docker import "$cache/base.tar" "$base" >/dev/null
    mkdir "$scratch/context"
    cp "$recipe_dir"/* "$scratch/context/"
    cp -r "$jars" "$scratch/context/libs"
    say "building $image"
    DOCKER_BUILDKIT=0 docker build -q -t "$image" --build-arg "BASE=$base" --build-arg "RECIPE=$recipe" "$scratch/context" >/dev/null
    rm -f "$cache"/image-*.tar
    docker save -o "$scratch/image.tar" "$image"
    mv "$scratch/image.tar" "$saved"
}

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
recipe="$(cat "$recipe_dir"/* | sha256sum | cut -c 1-16)"
saved="$cache/image-$recipe.tar"
jars="$cache/jars-$(sha256sum <"$recipe_dir/pom.xml" | cut -c 1-16)"

have docker || install_packages docker.io iptables
start_docker
if image_is_there; then exit 0; fi
if [ -f "$saved" ]; then
    say "loading $image from $saved"
    docker load -q -i "$saved" >&2
    exit 0
fi
if ! docker image inspect "$image" >/dev/null 2>&1; then
    if reason="$(timeout 300 docker pull -q "$image" 2>&1)"; then exit 0; fi
    say "$image cannot be pulled, so it is built here: $(tail -n 1 <<<"$reason")"
fi
scratch="$(mktemp -d "$cache/.build.XXXXXX")"
trap 'rm -rf "$scratch"' EXIT
build_image
say "$image is built"
