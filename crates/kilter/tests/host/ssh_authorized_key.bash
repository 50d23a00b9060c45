#!/bin/bash
# Keys of users of the sandbox, made by ssh-keygen.
# shellcheck source-path=SCRIPTDIR/../../../../providers source=testing.bash
. "${0%/*}/testing.bash"

useradd --create-home kilterkey
useradd --create-home kilterother
file=/home/kilterkey/.ssh/authorized_keys
key() {
    [ -e "$place/$1" ] || ssh-keygen -q -t "${2-ed25519}" -N '' -C '' -f "$place/$1"
    cut -d ' ' -f 2 "$place/$1.pub"
}

changes ssh_authorized_key me@laptop user=kilterkey type=ssh-ed25519 key="$(key one)"
same "the line" "$(cat $file)" "ssh-ed25519 $(key one) me@laptop"
same "it is the user's alone" "$(stat -c '%U %G %a' $file ${file%/*} | tr '\n' ' ')" "kilterkey kilterkey 600 kilterkey kilterkey 700 "
same "its file is told" "$(value ssh_authorized_key me@laptop target) $(value ssh_authorized_key me@laptop user)" "$file kilterkey"
holds "ssh-keygen reads it" ssh-keygen -l -f $file

# Lines of others; options with commas, quotes and spaces.
foreign=$'# mine\n\nfrom="10.0.0.*,10.1.0.1",command="echo \\"a b\\", c" ssh-rsa '"$(key two rsa) second key"$'\nssh-ed25519 '"$(key three)"$'\n  nonsense\n'
printf '%s' "$foreign" >$file
chmod 644 $file
same "the options of a line" "$(value ssh_authorized_key 'second key' options)" '["from=\"10.0.0.*,10.1.0.1\"", "command=\"echo \\\"a b\\\", c\""]'
changes ssh_authorized_key kilterkey:new type=ssh-ed25519 key="$(key one)" options=no-pty,no-X11-forwarding
same "foreign lines stay" "$(cat $file)" "${foreign}no-pty,no-X11-forwarding ssh-ed25519 $(key one) new"
same "the mode is mended" "$(stat -c %a $file)" 600
changes ssh_authorized_key 'second key' options=no-pty
same "only its line changes" "$(sed -n 1,3p $file)" $'# mine\n\nno-pty ssh-rsa '"$(key two) second key"
same "keys without a name are nobody's" "$(names ssh_authorized_key | tr '\n' ';')" "new;second key;"

# The same name for another user.
changes ssh_authorized_key kilterother:new type=ssh-ed25519 key="$(key three)"
refuses "write it with its user" ssh_authorized_key new options=no-pty
same "both are listed with their users" "$(names ssh_authorized_key | tr '\n' ';')" "kilterkey:new;kilterother:new;second key;"
changes ssh_authorized_key kilterother:new ensure=absent

# A name that begins with the name of a user.
own=/root/.ssh/authorized_keys
rm -f $own
changes ssh_authorized_key root:kilterkey:deploy type=ssh-ed25519 key="$(key three)"
same "it goes to the user before it" "$(cat $own)" "ssh-ed25519 $(key three) kilterkey:deploy"
same "it is listed with its user" "$(names ssh_authorized_key | tr '\n' ';')" "new;root:kilterkey:deploy;second key;"
refuses "is written root:kilterkey:deploy" ssh_authorized_key kilterkey:deploy ensure=absent
refuses "is written root:kilterkey:deploy" ssh_authorized_key kilterkey:deploy user=root ensure=absent
same "it is as it was" "$(cat $own)" "ssh-ed25519 $(key three) kilterkey:deploy"
changes ssh_authorized_key root:kilterkey:deploy ensure=absent
refuses "is written root:kilterkey:deploy" ssh_authorized_key kilterkey:deploy user=root type=ssh-ed25519 key="$(key three)"
changes ssh_authorized_key kilterother:root:deploy type=ssh-ed25519 key="$(key three)"
same "that of another user is told" \
    "$(kilter get ssh_authorized_key root:deploy 2>&1 >/dev/null | grep -c 'is written kilterother:root:deploy')" 1
changes ssh_authorized_key root:deploy type=ssh-ed25519 key="$(key three)"
same "and keeps nobody from the own" "$(names ssh_authorized_key | grep deploy | tr '\n' ' ')" "deploy kilterother:root:deploy "
for name in root:deploy kilterother:root:deploy; do changes ssh_authorized_key "$name" ensure=absent; done

# Backslashes as sshd reads them: a backslash is an escape only before a quote inside of quotes.
others=/home/kilterother/.ssh/authorized_keys
cat >$others <<END
command="a\b \\d \"c d\"",no-pty ssh-ed25519 $(key three) slashes
command="never ends\" ssh-ed25519 $(key three) open
  from="\\\"",command="" ssh-ed25519 $(key three) the last  
END
same "the options of slashes" "$(value ssh_authorized_key slashes options)" '["command=\"a\\b \\d \\\"c d\\\"\"", "no-pty"]'
same "the options of the last" "$(value ssh_authorized_key 'the last' options)" '["from=\"\\\\\"\"", "command=\"\""]'
same "a quote that does not end has no key behind it" "$(value ssh_authorized_key open ensure)" absent

# No line of a user takes long to parse.
python3 - >$others <<'END'
many = 100_000
for line in ['command="' + '\\"' * many + ' x', 'command="' + '\\' * many, '"' * (many + 1), '"\\" ' * many, "ssh-" * many, "a," * many + " x",
             "ssh-rsa" + " " * many + ";", "ssh-rsa AAAA x" + " " * many + "spaced", " " * many + "x"]:
    print(line)
END
same "they are read soon" "$(timeout 20 "$KILTER" --state-dir "$place/state" get ssh_authorized_key new >/dev/null; echo $?)" 0
refuses "is no option" ssh_authorized_key new "options=command=\"$(printf '\\"%.0s' {1..60}) x"
rm $others

# Lines of other users block nothing, and a key is recognised under any comment.
changes ssh_authorized_key bob@laptop user=kilterkey type=ssh-ed25519 key="$(key five)"
echo "ssh-ed25519 $(key three) bob@laptop" >$others
changes ssh_authorized_key bob@laptop user=kilterkey options=no-pty
changes ssh_authorized_key bob@laptop user=kilterkey ensure=absent
same "the key of another user with this comment stays" "$(grep -c bob@laptop $others) $(grep -c bob@laptop $file)" "1 0"
printf 'ssh-ed25519 %s innocent\nssh-ed25519 %s\n' "$(key five)" "$(key five)" >>$file
changes ssh_authorized_key bob@laptop user=kilterkey type=ssh-ed25519 key="$(key five)" ensure=absent
same "it is revoked under every comment" "$(grep -c "$(key five)" $file)" 0
printf 'ssh-ed25519 %s bob@laptop\nssh-ed25519 %s bob@laptop\n' "$(key five)" "$(key one)" >>$file
changes ssh_authorized_key bob@laptop user=kilterkey type=ssh-ed25519 key="$(key five)" ensure=absent
same "another key with the same comment stays" "$(grep bob@laptop $file)" "ssh-ed25519 $(key one) bob@laptop"
sed -i /bob@laptop/d $file
changes ssh_authorized_key bob@laptop user=kilterkey type=ssh-ed25519 key="$(key five)"
refuses "write it with its user" ssh_authorized_key bob@laptop options=no-pty
changes ssh_authorized_key bob@laptop ensure=absent
same "without a user it is revoked for all" "$(cat $others $file | grep -c bob@laptop)" 0
rm $others

# A refused change has no effect.
before=$(cat $file)
refuses "no key of the kind ssh-rsa" ssh_authorized_key new type=ssh-rsa
refuses "no key of the kind" ssh_authorized_key new key=AAAA
refuses "is no option" ssh_authorized_key new "options=no pty"
refuses "cannot be the comment" ssh_authorized_key "kilterkey:two
lines" type=ssh-ed25519 key="$(key one)"
refuses "there is no user nosuch" ssh_authorized_key lost user=nosuch type=ssh-ed25519 key="$(key one)"
refuses "a new key needs" ssh_authorized_key lost user=kilterkey
same "it is as it was" "$(cat $file)" "$before"

# The script follows no links of the user.
echo "precious" >/root/precious
echo "precious" >/home/precious
mv $file $file.away
ln -s /root/precious $file
refuses "is not a regular file but a link" ssh_authorized_key kilterkey:new type=ssh-ed25519 key="$(key one)"
rm $file
ln /home/precious $file
refuses "has 2 names" ssh_authorized_key kilterkey:new type=ssh-ed25519 key="$(key one)"
rm $file
mkfifo $file
refuses "is not a regular file but a fifo" ssh_authorized_key kilterkey:new type=ssh-ed25519 key="$(key one)"
rm $file
truncate --size 3G $file
chown kilterkey: $file
refuses "is larger than 1048576 bytes" ssh_authorized_key kilterkey:new type=ssh-ed25519 key="$(key one)"
changes ssh_authorized_key kilterother:slashes type=ssh-ed25519 key="$(key three)"
refuses "may be in a file that is not known" ssh_authorized_key hidden ensure=absent
changes ssh_authorized_key kilterother:hidden type=ssh-ed25519 key="$(key one)"
changes ssh_authorized_key kilterother:hidden ensure=absent
same "a user's huge file costs nobody else a key" "$(value ssh_authorized_key slashes user)" kilterother
rm $file
mv $file.away $file
mv ${file%/*} /home/kilterkey/elsewhere
mkdir /root/victim
ln -s /root/victim ${file%/*}
refuses "will not follow the symbolic link" ssh_authorized_key kilterkey:new type=ssh-ed25519 key="$(key one)"
same "nothing was written behind a link" "$(cat /root/precious)$(ls /root/victim)" precious
rm ${file%/*}
mv /home/kilterkey/elsewhere ${file%/*}

changes ssh_authorized_key new ensure=absent
changes ssh_authorized_key 'second key' ensure=absent
same "the rest is left" "$(cat $file)" $'# mine\n\nssh-ed25519 '"$(key three)"$'\n  nonsense'
same "nothing else is left" "$(ls -A ${file%/*})" authorized_keys
finish
