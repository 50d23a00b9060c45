#!/bin/bash
# Entries of crontabs, with the crontab command of the machine.
# shellcheck source-path=SCRIPTDIR/../../../../providers source=testing.bash
. "${0%/*}/testing.bash"

rm -rf /var/spool/cron/crontabs/*
useradd --create-home kiltercron
foreign=$'# my own\n\nMAILTO=me\n5 4 * * sun   /bin/true  # spaced\n\t@reboot /bin/mine\n'
crontab -u kiltercron - <<<"${foreign%$'\n'}"
tab() { crontab -u "${1-kiltercron}" -l; }

changes cron backup user=kiltercron command="/bin/echo \"a b\" \$HOME" minute=15 hour=3
same "it is at the end, and nothing else has changed" "$(tab)" "$foreign# Puppet Name: backup
15 3 * * * /bin/echo \"a b\" \$HOME"
same "what is not said is any time" "$(value cron backup weekday) $(value cron backup special)" "* none"
same "its user is told" "$(value cron backup user)" kiltercron
keeps cron kiltercron:backup minute=15
changes cron second user=kiltercron command=/bin/second special=daily
changes cron backup minute='*/5' weekday=1-5
same "it is changed in its place" "$(tab)" "$foreign# Puppet Name: backup
*/5 3 * * 1-5 /bin/echo \"a b\" \$HOME
# Puppet Name: second
@daily /bin/second"
changes cron second hour=7
same "a time goes before a word" "$(tab | tail -n 1)" "* 7 * * * /bin/second"
changes cron backup environment=PATH=/bin,MAILTO=root
same "variables stand before the entry" "$(tab | sed -n 6,9p)" "# Puppet Name: backup
PATH=/bin
MAILTO=root
*/5 3 * * 1-5 /bin/echo \"a b\" \$HOME"
same "foreign entries are nobody's" "$(names cron | tr '\n' ' ')" "backup second "

# The same name in two crontabs.
changes cron root:backup command=/bin/root
same "it goes to the user of its name" "$(tab root)" $'# Puppet Name: backup\n* * * * * /bin/root'
same "both are listed with their users" "$(names cron | tr '\n' ' ')" "kiltercron:backup root:backup second "
refuses "write it with its user" cron backup minute=1
changes cron root:backup ensure=absent

# A name that begins with the name of a user.
changes cron root:kiltercron:daily command=/bin/daily
same "it goes to the crontab of the user before it" "$(tab root)" $'# Puppet Name: kiltercron:daily\n* * * * * /bin/daily'
same "it is listed with its user" "$(names cron | tr '\n' ' ')" "backup root:kiltercron:daily second "
refuses "is written root:kiltercron:daily" cron kiltercron:daily ensure=absent
refuses "is written root:kiltercron:daily" cron kiltercron:daily user=root ensure=absent
refuses "is written root:kiltercron:daily" cron kiltercron:daily user=root command=/bin/daily
same "it is as it was" "$(tab root | tail -n 1)" "* * * * * /bin/daily"
changes cron root:kiltercron:daily ensure=absent
refuses "is written root:kiltercron:daily" cron kiltercron:daily user=root command=/bin/daily
same "nor has it come to another" "$(there /var/spool/cron/crontabs/root) $(tab | grep -c daily)" "no 0"
changes cron kiltercron:root:weekly command=/bin/weekly
same "that of another user is told" "$(kilter get cron root:weekly 2>&1 >/dev/null | grep -c 'is written kiltercron:root:weekly')" 1
changes cron root:weekly command=/bin/weekly
same "and keeps nobody from the own" "$(names cron | grep weekly | tr '\n' ' ')" "kiltercron:root:weekly weekly "
for name in root:weekly kiltercron:root:weekly; do changes cron "$name" ensure=absent; done

changes cron plain command=/bin/plain
same "without a user it is one's own" "$(value cron plain user)" root

# A refused change has no effect.
before=$(tab)
refuses "is no time of cron" cron backup 'minute=1 2'
refuses "is no time of cron" cron backup minute=99
refuses "a command is one line" cron backup $'command=/bin/a\n* * * * * /bin/evil'
refuses "NAME=value" cron backup environment=evil
refuses "crontab of kiltercron" cron backup "command=$(printf 'x%.0s' {1..2000})"
refuses "a new entry needs" cron nothing user=kiltercron
refuses "there is no user nosuch" cron lost user=nosuch command=/bin/true
refuses "there is no user nosuch" cron nosuch:lost command=/bin/true
same "it is as it was" "$(tab)" "$before"

# Several entries in one call: a failure affects only its entry.
cat >"$place/many.yaml" <<END
resources:
  cron[one]: {command: /bin/one, user: kiltercron}
  cron[two]: {command: "$(printf 'x%.0s' {1..2000})", user: kiltercron}
  cron[three]: {command: /bin/three, user: kiltercron}
END
kilter apply "$place/many.yaml" >"$place/out" 2>&1
same "one fails" "$?" 4
same "two are there" "$(tab | grep -c '^# Puppet Name: \(one\|three\)$')" 2

for name in backup second one three; do changes cron "$name" ensure=absent; done
same "the foreign lines are left" "$(tab && echo .)" "$foreign."
changes cron plain ensure=absent
same "an empty crontab is removed" "$(there /var/spool/cron/crontabs/root)" no
finish
