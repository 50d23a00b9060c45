//! Examples at the end of each help text.

pub(super) const KILTER: &str = "\
Examples:
  kilter types file                    list the attributes of a file
  kilter get user root                 read a resource
  kilter set file /etc/motd mode=0644  change a resource
  kilter plan web.yaml                 show the pending changes
  kilter apply web.yaml                make the changes

Exit codes: 0 in sync, 1 not started (nothing was touched), 2 changes pending, 4 a resource failed,
130 or 143 interrupted. `kilter COMMAND --help` shows the details.";

pub(super) const APPLY: &str = "\
Examples:
  kilter apply web.yaml
  kilter apply base.yaml web.yaml --var port=8080
  kilter get user --format yaml | kilter apply -
  kilter plan web.yaml -o web.plan && kilter apply web.plan

kilter applies a plan step by step. It refuses a step whose resource has changed since the plan was
made, and its dependents. `--noop` exits with 2 if changes are pending.";

pub(super) const PLAN: &str = "\
Examples:
  kilter plan web.yaml
  kilter plan web.yaml -o web.plan     save the plan for `kilter apply web.plan`
  kilter plan web.yaml --format json | jq .counts

`plan` makes no changes. It exits with 0 if there is nothing to change, 2 if changes are pending,
4 if a resource could not be checked.";

pub(super) const CHECK: &str = "\
Examples:
  kilter check web.yaml
  kilter check base.yaml web.yaml --strict error    in CI: a warning is an error too
  kilter check web.yaml --format json | jq .problems

`check` compiles the manifests as `plan` does: with their includes, facts, variables and secrets. It
checks types, attributes, values, relations and cycles, and warns about probable mistakes. It reads
and changes no resource, and runs no guard. It exits with 0 if there is no problem, 1 otherwise.
With `--strict error` it also exits with 1 if there is a warning.";

pub(super) const EXPLAIN: &str = "\
Examples:
  kilter explain vars.ntp_servers site.yaml             the layers of a variable, and the merge rule
  kilter explain 'file[/etc/app.conf]' mode site.yaml   the place of an attribute
  kilter explain 'file[/etc/app.conf]' site.yaml        all attributes
  kilter explain vars.port site.yaml --format json | jq .values[0].tried

`*` marks the places that contribute to the value. `explain` compiles the manifests as `check` does:
it reads and changes no resource. Secrets stay hidden. It exits with 0 if the value can be
explained, 1 otherwise.";

pub(super) const INIT: &str = "\
Examples:
  kilter init -o site.yaml             what differs from the distribution's defaults
  kilter init package service          only these types
  kilter init user --all               all users, those of the system too

The default includes packages that were installed by choice, edited configuration files of packages,
accounts and groups of people, entries of /etc/fstab and /etc/hosts, SSH keys, kernel parameters,
cron jobs, and units that are enabled or disabled against the preset. It includes no secrets: no
passwords, and no files that only some users may read. A plan of the manifest shows no change.";

pub(super) const FMT: &str = "\
Examples:
  kilter fmt site.yaml
  kilter fmt .                         all manifests below a directory
  kilter fmt --check .                 for a commit hook: exit code 1 if a file would change
  kilter fmt < site.yaml

Sets indentation, quotes and spaces. Values, their order and comments stay the same: kilter compares
them before it writes. A line with `# pretty-yaml-ignore` keeps the layout of the next entry.

Exits with 1 if a file has an error, or with --check if a file would change.";

pub(super) const RUN: &str = "\
Examples:
  kilter run web.yaml
  kilter run web.yaml --noop           only report differences
  kilter run web.yaml --converged-exit --converged-timeout 10
  kilter run web.yaml --max-runtime 3600
  kilter run web.yaml --format json | jq -c .event,.resource
  kilter run --from git+https://git.example.com/site.git --signed-by /etc/kilter/signers

kilter repairs drift at once and reloads an edited manifest. An invalid manifest changes nothing.
At the first interrupt, calls in flight finish.";

pub(super) const STATUS: &str = "\
Examples:
  kilter status                        resources that are out of sync, with the reason
  kilter status 'file[/etc/motd]'      a resource: its watch, state and last change
  kilter status --all --format json
  kilter status --follow | jq .        events, as they happen

The command queries `kilter run` through a socket in the state directory (--state-dir). Exits with 0
if all resources are in sync or have pending work, 2 if a resource is out of sync and left so
(policy, noop), 4 if a resource has failed or is skipped because of a failure, 1 if there is no run.";

pub(super) const PAUSE: &str = "\
Examples:
  kilter pause 'disk is being copied' && cp -a /srv /backup; kilter resume
  kilter pause --for 600               resume automatically after ten minutes

`kilter pause` waits until calls in flight have finished. The run starts no further call. After the
pause it checks all resources that had an event. It reads an edited manifest, and applies it after
the pause. A restarted run stays paused. Without a run, it stores the pause, and kilter refuses
commands that make changes. Exits with 1 if it cannot store the pause.";

pub(super) const RESUME: &str = "\
Examples:
  kilter resume                        end the pauses of this session
  kilter resume 2                      end one, of any session
  kilter resume --all

Exits with 0 if the run is not paused, and with 1 if there is no run and no pause, or if only other
sessions have paused it.";

pub(super) const CLEAN: &str = "\
Examples:
  kilter clean                         remove temporary files of killed runs
  kilter clean --noop --format json    list them
  kilter clean /etc /srv/app           also files of runs with another state directory

A run writes new contents to files named `.kilter.PROCESS-NUMBER` beside the old ones, and
records the directories in its state directory. If it is killed, the next `apply`, `set` or
`run` with this state directory removes the files, whatever its manifest declares; `clean`
does only that. It removes only files of the recorded process. In directories on the
command line, it removes files whose process has ended. For files of another boot, container
or host, it removes those that are a day old. It does not run beside another run with the
same state directory.

Exits with 2 if --noop lists files, with 4 if a file cannot be removed.";

pub(super) const GET: &str = "\
Examples:
  kilter get user                      all users, as a table
  kilter get user root                 all attributes of a user
  kilter get 'file[/etc/motd]' --format json
  kilter get user --format yaml > users.yaml && kilter apply users.yaml

A missing resource is shown as absent. Without --show-sensitive, secrets are omitted from manifests
and are `[redacted]` in other formats.";

pub(super) const SET: &str = "\
Examples:
  kilter set file /etc/motd mode=0644 owner=root
  kilter set user app shell=/usr/sbin/nologin groups=adm,www-data --noop
  kilter set 'user[app]' ensure=absent
  mkpasswd | kilter set user app password=-

kilter converts the words by the data type of the attribute (`kilter types TYPE`). Separate the
elements of a list by commas, or repeat the attribute (then commas are literal). `ATTR=-` reads the
value from standard input, for a secret without the final newline. So it is in no process list and
no shell history.";

pub(super) const ACT: &str = "\
Examples:
  kilter act 'service[sshd]' restart --mold minion
  kilter act service sshd reload --mold minion --format json

An action runs in any state of the resource. Exits with 0 if it succeeded, 1 if there is no such
action (nothing was started), 4 if it failed. Types whose providers are scripts of mold have actions.";

pub(super) const TYPES: &str = "\
Examples:
  kilter types                         all types
  kilter types file                    one, with its attributes
  kilter types file --format json | jq '.attributes[].name'";

pub(super) const INVENTORY: &str = "\
Examples:
  kilter inventory                                 list all targets
  kilter inventory -i hosts.yaml 'web:!web1'
  kilter inventory 'vars.site == \"fra\" && \"web\" in groups'
  kilter inventory --host web1                     the options and variables of one target
  kilter inventory --graph

A name alone is a host or a group. Patterns are those of Ansible: `a,b`, `a:b`, `web*`, `!x`, `&x`,
`~regex`, `web[0:2]`. Passwords are not shown.";

pub(super) const ROLLOUT: &str = "\
Examples:
  kilter rollout list
  kilter rollout show last             the state of each host
  kilter rollout resume last           continue after the controller was killed
  kilter rollout resume 7 --max-failures 3
  kilter --failed-of last plan site.yaml
                                       a new plan of the hosts that were not changed

Each `kilter --on HOSTS apply` is stored on this machine. `resume` applies the approved plans to the
hosts that are untouched or had no answer. A host whose apply had begun is first asked for its result.";

pub(super) const FACTS: &str = "\
Examples:
  kilter facts
  kilter facts os.release.major
  kilter facts networking --format json

Manifests use them as ${facts.os.family}. External facts (*.json, *.txt, executables) are read from
/etc/kilter/facts.d and Facter's directories for root, ~/.config/kilter/facts.d otherwise.";

pub(super) const GRAPH: &str = "\
Examples:
  kilter graph web.yaml                list the edges and their origins
  kilter graph web.yaml --format svg > web.svg
  kilter graph web.yaml --format dot | dot -Tpdf > web.pdf
  kilter graph web.yaml --format mermaid

Drawings show notify edges dashed. Each edge has its origin: the keyword in the manifest, the value
that it carries, or the reason of an automatic edge.";

pub(super) const HISTORY: &str = "\
Examples:
  kilter history                          runs with changes or failures, and one other per hour
  kilter history show last                all changes of the last run
  kilter history 'file[/etc/motd]'        the changes of a resource
  kilter history --since yesterday --corrective
                                          runs that repaired a drift
  kilter history diff yesterday           the difference of the managed machine since then
  kilter history drift                    the resources that drift, and how often
  kilter history export > events.jsonl    all events for other programs
  kilter history verify                   verify that no event was changed or removed
  kilter history --channel3 log           a raw log of the scripts of mold

Runs without changes are counted with the run before; one of them is recorded per hour.
`kilter blame` explains the values of a resource, `kilter undo` restores an earlier state.";

pub(super) const BLAME: &str = "\
Examples:
  kilter blame 'file[/etc/motd]'          the origin of each attribute
  kilter blame 'file[/etc/motd]' mode     of one attribute
  kilter blame 'service[nginx]' --format json";

pub(super) const UNDO: &str = "\
Examples:
  kilter undo last --noop                 the plan of an undo of the last run with changes
  kilter undo last
  kilter undo 13                          run 13 of `kilter history`
  kilter undo 'file[/etc/motd]'           the last change of a resource
  kilter undo 'file[/etc/motd]' --to yesterday
  kilter undo --to 2h                     all changes of the last two hours

An undo is a run: it is recorded, and can be undone. The effects of commands cannot be undone;
the command names such changes first, and stops unless --partly is given.";

pub(super) const CONFIRM: &str = "\
Examples:
  kilter apply --confirm-within 2m network.yaml      undo the changes after two minutes
  kilter confirm                                     from a new connection: keep them
  kilter confirm --undo                              undo them now
  kilter apply --health 'curl -fs localhost' site.yaml

The apply ends with its usual exit code if the changes are confirmed, and with 5 if they were undone.";

pub(super) const PROVIDER: &str = "\
Examples:
  kilter provider new simple colour    create colour.prov, a working provider in bash, and its check
  kilter provider check colour.prov    check it
  kilter provider record bug.jsonl get package bash
  kilter provider replay bug.jsonl     replay the command on any machine

`kilter provider COMMAND --help` shows the details.";

pub(super) const SCHEMA: &str = "\
Examples:
  kilter schema > manifest.schema.json
  kilter schema mold > mold.schema.json

With the line `# yaml-language-server: $schema=manifest.schema.json` at the top of a manifest,
editors complete and validate types, attributes and relations.";

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
