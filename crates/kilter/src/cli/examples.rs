//! The examples at the end of each command's help.

pub(super) const KILTER: &str = "\
Examples:
  kilter types file                    what can be said of a file
  kilter get user root                 read a resource
  kilter set file /etc/motd mode=0644  change one
  kilter plan web.yaml                 what a manifest would change
  kilter apply web.yaml                change it

Exit codes: 0 in the declared state, 1 not started (nothing was touched), 2 changes pending,
4 something failed, 130 or 143 interrupted. `kilter COMMAND --help` tells more.";

pub(super) const APPLY: &str = "\
Examples:
  kilter apply web.yaml
  kilter apply base.yaml web.yaml --var port=8080
  kilter get user --format yaml | kilter apply -
  kilter plan web.yaml -o web.plan && kilter apply web.plan

A plan is applied step by step: a step whose resource has changed since then is refused, with its dependents.
`--noop` exits with 2 when changes are pending.";

pub(super) const PLAN: &str = "\
Examples:
  kilter plan web.yaml
  kilter plan web.yaml -o web.plan     keep it; `kilter apply web.plan` does just that
  kilter plan web.yaml --format json | jq .counts

Nothing is changed. Exits with 0 when there is nothing to change, 2 when there is,
4 when a resource could not be checked.";

pub(super) const RUN: &str = "\
Examples:
  kilter run web.yaml
  kilter run web.yaml --noop           only tell what differs, while it does
  kilter run web.yaml --converged-exit --converged-timeout 10
  kilter run web.yaml --max-runtime 3600

What somebody else changes is brought back at once; a manifest that is edited is read anew, and one
that is wrong changes nothing. The first interrupt lets what is under way finish.";

pub(super) const STATUS: &str = "\
Examples:
  kilter status                        what is not in its state, and why
  kilter status 'file[/etc/motd]'      one resource: what tells of it, what was done to it
  kilter status --all --format json
  kilter status --follow | jq .        events, as they happen

A `kilter run` is asked through a socket in its state directory (--state-dir). The exit code is 0 when
everything is in its state or on its way to it, 2 when something is not and left so (policy, noop), 4 when
something has failed or is skipped because of that, 1 when there is no run to ask.";

pub(super) const PAUSE: &str = "\
Examples:
  kilter pause 'disk is being copied' && cp -a /srv /backup; kilter resume
  kilter pause --for 600               resume by itself after ten minutes

What is under way is finished, and `kilter pause` waits for that; nothing else is begun, whatever happens
meanwhile, and all of it is looked at when the run is resumed. A manifest that is edited is read, and waits.
A run that is ended and begun anew stays paused. Exits with 1 when there is no run.";

pub(super) const RESUME: &str = "\
Examples:
  kilter resume                        end the pauses of this session
  kilter resume 2                      end one, whoever made it
  kilter resume --all

A run that is not paused is left as it is. Exits with 1 if there is no run and no pause, or if only other sessions have paused it.";

pub(super) const CLEAN: &str = "\
Examples:
  kilter clean                         remove what killed runs left behind
  kilter clean --noop --format json    list it
  kilter clean /etc /srv/app           also where runs with another state directory left files

A run writes new contents to files named `.kilter.PROCESS-NUMBER` beside the old ones, and
records the directories in its state directory. If it is killed, the next `apply`, `set` or
`run` with this state directory removes the files, whatever its manifest declares; `clean`
does only that. It removes files that the recorded process has made, and no others. In
directories that are named, it removes files whose process has ended; if that cannot be known,
because they are of another boot, container or host, files that are a day old. It does not run
beside another run with the same state directory.

Exits with 2 if --noop lists files, with 4 if a file cannot be removed.";

pub(super) const GET: &str = "\
Examples:
  kilter get user                      all users, as a table
  kilter get user root                 all that can be said of one
  kilter get 'file[/etc/motd]' --format json
  kilter get user --format yaml > users.yaml && kilter apply users.yaml

A resource that is named and not there is shown as absent. Secrets are left out of what can be
read back, and are `[redacted]` elsewhere, unless --show-sensitive is given.";

pub(super) const SET: &str = "\
Examples:
  kilter set file /etc/motd mode=0644 owner=root
  kilter set user app shell=/usr/sbin/nologin groups=adm,www-data --noop
  kilter set 'user[app]' ensure=absent
  mkpasswd | kilter set user app password=-

The words become values by the type of the attribute: `kilter types TYPE` tells it. A list is given
with commas, or by naming the attribute several times (then commas stand for themselves). `ATTR=-`
takes the value from the standard input, of a secret less the newline at its end: given so, it is
seen in no process list and no shell history.";

pub(super) const ACT: &str = "\
Examples:
  kilter act 'service[sshd]' restart --mold minion
  kilter act service sshd reload --mold minion --format json

An action is carried out whatever the state of the resource is. Exits with 0 when it was done, 1 when there
is no such action (nothing was started), 4 when it failed. Types whose providers are scripts of mold have actions.";

pub(super) const TYPES: &str = "\
Examples:
  kilter types                         all types
  kilter types file                    one, with its attributes
  kilter types file --format json | jq '.attributes[].name'";

pub(super) const FACTS: &str = "\
Examples:
  kilter facts
  kilter facts os.release.major
  kilter facts networking --format json

Manifests use them as ${facts.os.family}. External facts (*.json, *.txt, executables) are read from
/etc/kilter/facts.d and Facter's directories for root, ~/.config/kilter/facts.d otherwise.";

pub(super) const GRAPH: &str = "\
Examples:
  kilter graph web.yaml                what comes after what, and why
  kilter graph web.yaml --format svg > web.svg
  kilter graph web.yaml --format dot | dot -Tpdf > web.pdf
  kilter graph web.yaml --format mermaid

Edges that notify are dashed in drawings. Each edge says where it comes from: the word it was
written with, the value it carries, or why kilter added it.";

pub(super) const HISTORY: &str = "\
Examples:
  kilter history --channel3 log
  kilter history --channel3 log --name resources/service --key stdout --key stderr
  kilter history --channel3 log --format json | jq 'select(.key == \"exitcode\" and .data != 0) .name'
  tail -c +1 -f log | kilter history --channel3 -

A log is what `--channel3 FILE` of other commands has appended to a file; `-` is the standard
input. What belongs to no message is told with its place on standard error, and passed over.";

pub(super) const PROVIDER: &str = "\
Examples:
  kilter provider new simple colour    colour.prov, a provider in bash that works, and its check
  kilter provider check colour.prov    put it to the test
  kilter provider record bug.jsonl get package bash
  kilter provider replay bug.jsonl     the same once more, anywhere

`kilter provider COMMAND --help` tells more.";

pub(super) const SCHEMA: &str = "\
Examples:
  kilter schema > manifest.schema.json
  kilter schema mold > mold.schema.json

With the line `# yaml-language-server: $schema=manifest.schema.json` at the top of a manifest,
editors complete and check types, attributes and relations.";

pub(super) const COMPLETIONS: &str = "\
Examples:
  kilter completions bash > /etc/bash_completion.d/kilter
  kilter completions zsh > ~/.zfunc/_kilter
  kilter completions fish > ~/.config/fish/completions/kilter.fish
  kilter completions bash --for ralsh > /etc/bash_completion.d/ralsh";

pub(super) const MAN: &str = "\
Examples:
  kilter man | man -l -
  kilter man /usr/local/share/man/man1";
