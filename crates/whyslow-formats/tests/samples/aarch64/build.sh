#!/bin/sh
# Builds `chain` and `libleaf.so` with a cross compiler (Debian: gcc-aarch64-linux-gnu).
set -e
out=${1:?folder}
cc="aarch64-linux-gnu-gcc -O2 -fpic -ffreestanding -fno-stack-protector -fno-optimize-sibling-calls"
link="aarch64-linux-gnu-gcc -nostdlib -Wl,-z,max-page-size=4096,--build-id"
function() {
    name=$1 next=$2
    shift 2
    $cc "$@" -DNAME="$name" -DNEXT="$next" -c chain.c -o "$out/$name.o"
}
function authenticated framed -fomit-frame-pointer -mbranch-protection=standard
function framed plain -fno-omit-frame-pointer
function plain untabled -fomit-frame-pointer
function untabled leaf -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fno-unwind-tables
$cc -fomit-frame-pointer -DLEAF -c chain.c -o "$out/leaf.o"
$cc -fomit-frame-pointer -c chain.c -o "$out/start.o"
$link -shared -Wl,-soname,libleaf.so "$out/leaf.o" -o "$out/libleaf.so"
cd "$out"
$link -pie -Wl,-rpath,/lab,--dynamic-linker=/lib/ld-linux-aarch64.so.1 \
    start.o authenticated.o framed.o plain.o untabled.o libleaf.so -o chain
