#!/bin/sh
# make dist: a source tarball that carries the generated protobuf C and the table of error conditions, so that a build from
# it needs neither Python packages nor Maven. usage: dist.sh GENERATED_DIR
set -eu
generated=$1
version=$(sed -n 's/^project(trunnion VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=trunnion-$version
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
git archive --prefix="$name/" HEAD | tar -x -C "$scratch"
mkdir -p "$scratch/$name/generated"
cp -R "$generated"/. "$scratch/$name/generated/"
touch "$scratch/$name/generated/.complete"
mkdir -p build
tar -C "$scratch" -czf "build/$name.tar.gz" "$name"
echo "build/$name.tar.gz"
