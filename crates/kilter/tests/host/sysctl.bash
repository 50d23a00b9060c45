#!/bin/bash
# Kernel parameters of a separate network namespace, with the real kernel.
# shellcheck source-path=SCRIPTDIR/../../../../providers source=testing.bash
[ "${1-}" = apart ] || exec unshare --net "$0" apart
. "${0%/*}/testing.bash"

file=/etc/sysctl.d/zz-kilter.conf
proc() { cat "/proc/sys/net/ipv4/$1"; }
same "there is nothing to begin with" "$(names sysctl)$(there $file)" no
same "what is now is told" "$(value sysctl net.ipv4.ip_forward live) $(value sysctl net.ipv4.ip_forward kept)" "$(proc ip_forward) -"
echo 0 >/proc/sys/net/ipv4/ip_forward

# Now and at the next boot.
changes sysctl net.ipv4.ip_forward value=1
same "the kernel has it" "$(proc ip_forward)" 1
same "the file has it" "$(cat $file)" "net.ipv4.ip_forward = 1"
same "it is everybody's to read" "$(stat -c '%U %a' $file)" "root 644"
holds "sysctl reads the file" sysctl --load=$file
keeps sysctl net/ipv4/ip_forward value=1
same "each is told" "$(value sysctl net.ipv4.ip_forward value) $(value sysctl net/ipv4/ip_forward live)" "1 1"

# Changes by other programs are found and repaired.
echo 0 >/proc/sys/net/ipv4/ip_forward
same "without agreement there is no value" "$(value sysctl net.ipv4.ip_forward value)" -
changes sysctl net.ipv4.ip_forward value=1
same "the kernel is mended" "$(proc ip_forward)" 1
echo 'net.ipv4.ip_forward=0' >$file
changes sysctl net/ipv4/ip_forward value=1
same "the file is mended" "$(cat $file)" "net.ipv4.ip_forward = 1"

# `live` without `kept`, and the reverse.
changes sysctl net.ipv4.ip_forward live=0
same "the file is left alone" "$(cat $file)" "net.ipv4.ip_forward = 1"
changes sysctl net.ipv4.ip_forward kept=0
changes sysctl net.ipv4.ip_forward kept=1
same "the kernel is left alone" "$(proc ip_forward)" 0
changes sysctl net.kilter.no-such kept=1
same "what the kernel does not have is kept" "$(value sysctl net.kilter.no-such kept) $(value sysctl net.kilter.no-such live)" "1 -"
same "what is kept is listed" "$(names sysctl | tr '\n' ' ')" "net.ipv4.ip_forward net.kilter.no-such "
changes sysctl net.kilter.no-such exists=false

# A write-only parameter and a directory are reported with the known values.
printf 'net.ipv4.route.flush = 1\nnet.ipv4 = 1\n' >>$file
same "the kernel does not tell it" "$(cat /proc/sys/net/ipv4/route/flush 2>/dev/null || echo no)" no
same "they are listed" "$(names sysctl | sort | tr '\n' ' ')" "net.ipv4 net.ipv4.ip_forward net.ipv4.route.flush "
same "what cannot be read is left out" "$(value sysctl net.ipv4.route.flush kept) $(value sysctl net.ipv4.route.flush live)" "1 -"
changes sysctl net.ipv4.route.flush kept=0
keeps sysctl net.ipv4.route.flush kept=0
changes sysctl net.ipv4.route.flush exists=false
sed -i '/^net.ipv4 = 1$/d' $file

# Several numbers, with tabs in the kernel.
same "the kernel has tabs" "$(proc ip_local_port_range | tr -d '0-9')" $'\t'
changes sysctl net.ipv4.ip_local_port_range value=$'20000 \t 30000'
same "they are numbers" "$(proc ip_local_port_range)" $'20000\t30000'
keeps sysctl net.ipv4.ip_local_port_range value='20000 30000'
keeps sysctl net.ipv4.ip_local_port_range value=$' 20000\t30000'
same "one space is kept" "$(sed -n 2p $file)" "net.ipv4.ip_local_port_range = 20000 30000"

# Parts with dots, such as the name of an interface.
holds "there is an interface" ip link add eth0.7 type veth peer name eth1.7
changes sysctl net/ipv4/conf/eth0.7/log_martians value=1
same "it is that of the interface" "$(proc conf/eth0.7/log_martians) $(proc conf/eth1.7/log_martians)" "1 0"
keeps sysctl net.ipv4.conf.eth0/7.log_martians value=1
same "a dot in a part is a slash" "$(tail -n 1 $file)" "net.ipv4.conf.eth0/7.log_martians = 1"
changes sysctl net.ipv4.conf.eth0/7.log_martians exists=false

# Lines and files of others stay, byte for byte.
foreign=$'# mine\n; and this\n\n-net.ipv4.tcp_sack = 0\n  nonsense\nvm.swappiness=10'
printf '%s\nnet/ipv4/ip_forward = 1\nnet.ipv4.ip_forward = 0' "$foreign" >$file
same "of two lines the last counts" "$(value sysctl net.ipv4.ip_forward kept)" 0
changes sysctl net.ipv4.ip_forward value=1
same "one line is left in its place" "$(cat $file)" "$foreign"$'\nnet/ipv4/ip_forward = 1'
changes sysctl net.ipv4.tcp_sack kept=1
changes sysctl net.ipv4.ip_forward exists=false
same "the others stay" "$(cat $file)" "${foreign/-net.ipv4.tcp_sack = 0/net.ipv4.tcp_sack = 1}"
same "the kernel keeps what it has" "$(proc ip_forward)" 1
echo 'net.ipv4.ip_forward = 0' >/etc/sysctl.conf
echo 'net.ipv4.ip_forward = 0' >/etc/sysctl.d/10-other.conf
told=$(kilter set sysctl net.ipv4.ip_forward value=1 2>&1)
same "a file that may be read later is told, and none that is read before" "$(grep -o '/etc/sysctl.*' <<<"$told")" \
    "/etc/sysctl.conf says net.ipv4.ip_forward = 0, and may be read later"
same "foreign files stay" "$(cat /etc/sysctl.conf /etc/sysctl.d/10-other.conf)" $'net.ipv4.ip_forward = 0\nnet.ipv4.ip_forward = 0'

# A refused change has no effect.
before=$(cat $file)
echo 'resources: {"sysctl[net.kilter.missing]": {value: 1}}' >"$place/missing.yaml"
refuses "is not the name of a kernel parameter" sysctl ../../etc/passwd value=1
refuses "is not the name of a kernel parameter" sysctl net.ipv4...ip_forward value=1
refuses "is not the name of a kernel parameter" sysctl net/../kernel/ostype value=1
refuses "is not the name of a kernel parameter" sysctl /net/ipv4/ip_forward value=1
refuses "is not the name of a kernel parameter" sysctl ip_forward value=1
refuses "is not the name of a kernel parameter" sysctl 'net.ipv4.*' value=1
refuses "has parameters below it" sysctl net.ipv4 value=1
same "a plan tells a missing parameter" "$(kilter plan "$place/missing.yaml" 2>&1 | grep -c 'this kernel has no parameter net.kilter.missing')" 1
refuses "this kernel has no parameter net.ipv4.nosuch" sysctl net.ipv4.nosuch value=1
refuses "the kernel does not take \`wibble\`" sysctl net.ipv4.ip_local_port_range value=wibble
refuses "a value is one line" sysctl net.ipv4.ip_forward value=$'1\nkernel.panic = 1'
refuses "say different things" sysctl net.ipv4.ip_forward value=1 kept=0
refuses "needs \`value\` or \`kept\`" sysctl net.ipv4.tcp_timestamps exists=true
same "the file is as it was" "$(cat $file)" "$before"
same "the kernel is as it was" "$(proc ip_forward) $(proc ip_local_port_range)" $'1 20000\t30000'
ln -sf /root/elsewhere $file
refuses "is not a regular file but a link" sysctl net.ipv4.ip_forward value=1
same "nothing was written behind a link" "$(there /root/elsewhere)" no
rm $file

# Concurrent changes lose nothing and leave no temporary files.
{
    echo 'resources:'
    for number in $(seq 12); do printf '  sysctl[net.kilter.test%d]: {kept: %d}\n' "$number" "$number"; done
} >"$place/many.yaml"
holds "many are kept" kilter apply "$place/many.yaml" --jobs 8
same "all of them" "$(grep -c 'net.kilter.test' $file)" 12
sed -i 's/kept: .*}/exists: false}/' "$place/many.yaml"
holds "many are removed" kilter apply "$place/many.yaml" --jobs 8
same "an empty file goes" "$(there $file)" no
same "nothing else is left" "$(find /etc/sysctl.d -name '.*' -type f)" ""
finish
