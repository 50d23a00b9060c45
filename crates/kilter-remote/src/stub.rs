//! The script that begins a session: it finds or receives the program on the host.

use std::fmt::Write as _;

/// Names of machines, as `uname -m` prints them, by the name that Rust gives to this program's architecture.
const MACHINES: [(&str, &str); 7] = [
    ("x86_64", "x86_64"),
    ("aarch64", "aarch64"),
    ("arm", "armv7l"),
    ("x86", "i686"),
    ("riscv64", "riscv64"),
    ("powerpc64", "ppc64le"),
    ("s390x", "s390x"),
];

/// Returns the name of the machine on which this program runs.
pub(crate) fn own_machine() -> &'static str {
    let known = MACHINES.iter().find(|(arch, _)| *arch == std::env::consts::ARCH);
    known.map_or(std::env::consts::ARCH, |(_, machine)| machine)
}

/// State of the program on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cached {
    /// It is there and runs.
    Yes,
    /// A directory for it is there.
    No,
    /// No directory allows the execution of programs.
    NoDirectory,
}

/// First line of the script: what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostReport {
    pub(crate) cached: Cached,
    pub(crate) system: String,
    pub(crate) machine: String,
    pub(crate) uid: String,
}

impl HostReport {
    /// Parses the words after the marker.
    pub(crate) fn parse(line: &str) -> Option<HostReport> {
        let mut words = line.split_whitespace();
        let cached = match words.next()? {
            "cached" => Cached::Yes,
            "new" => Cached::No,
            "none" => Cached::NoDirectory,
            _ => return None,
        };
        let mut word = || words.next().map(str::to_owned);
        Some(HostReport { uid: word()?, system: word()?, machine: word()?, cached })
    }
}

/// Returns the script for a program with this digest. It is one line without quotes `'`, backslashes and exclamation
/// marks, so that all login shells pass it on unchanged.
///
/// The script enters the first directory that belongs to its user, has mode 0700 and allows the execution of programs.
/// Another user cannot replace files there, because the current directory stays the same even if its path is
/// exchanged. If the program is there, the script runs the program. Otherwise it obeys one line of its input.
///
/// The shell waits for the program: `ssh` and `sudo` pass on exit codes, but not always the signal that ended a
/// program.
pub(crate) fn script(marker: &str, digest: &str) -> String {
    let mut script = String::from("umask 077;U=$(id -u);");
    let _ = write!(script, "D={digest};M={marker};");
    script.push_str(
        "if test $U = 0;then set -- \"$KILTER_CACHE_DIR\" /var/cache/kilter /var/lib/kilter/cache /root/.cache/kilter \
         /dev/shm/kilter-0;\
         else set -- \"$KILTER_CACHE_DIR\" \"${XDG_CACHE_HOME:-$HOME/.cache}/kilter\" /var/tmp/kilter-$U \
         /dev/shm/kilter-$U /tmp/kilter-$U;fi;\
         W=none;for d in \"$@\";do test \"$d\"||continue;mkdir -p \"$d\" 2>/dev/null;cd \"$d\" 2>/dev/null||continue;\
         test -O .||continue;case $(ls -ld .) in drwx------*);;*)continue;;esac;\
         if test -x ./kilter-$D;then W=cached;break;fi;\
         { echo : >x.$$&&chmod 700 x.$$&&./x.$$;} 2>/dev/null&&W=new;rm -f x.$$;test $W = new&&break;done;\
         echo \"$M $W $U $(uname -sm)\";\
         if test $W = cached;then ./kilter-$D serve;exit $?;fi;\
         read -r L&&eval \"$L\"",
    );
    script
}

/// Returns the line that chooses the program with another digest, for another kind of machine: the script runs it if
/// it is there, or prints its first line again.
pub(crate) fn choose(digest: &str) -> String {
    format!(
        "D={digest};if test $W = cached;then W=new;fi;if test $W = new&&test -x ./kilter-$D;then \
         ./kilter-$D serve;exit $?;fi;echo \"$M $W $U $(uname -sm)\";read -r L&&eval \"$L\"\n"
    )
}

/// Returns the line that receives `size` bytes of gzip, verifies the program, and runs it.
pub(crate) fn receive(size: usize, keeps_cache: bool) -> String {
    let run = match keeps_cache {
        true => {
            "mv -f k.$$ kilter-$D&&{ ls -t kilter-*|tail -n +4|while read -r f;do rm -f \"./$f\";done;\
                 ./kilter-$D serve;exit $?;}"
        }
        false => "./k.$$ serve --remove;exit $?",
    };
    format!(
        "if head -c {size}|gzip -dc >k.$$&&test \"$(sha256sum <k.$$)\" = \"$D  -\"&&chmod 700 k.$$;then {run};fi;\
         rm -f k.$$;echo \"$M failed\"\n"
    )
}

/// Returns the lines that receive a program of `size` bytes into memory of a kind of machine, and run it. They need
/// perl.
pub(crate) fn receive_in_memory(size: usize, machine: &str) -> String {
    // memfd_create(2).
    let number = match machine {
        "x86_64" => 319,
        "armv7l" => 385,
        "i686" => 356,
        "ppc64le" => 360,
        "s390x" => 350,
        _ => 279,
    };
    let program = format!(
        "my $fd=syscall({number},my $n=q(kilter),1);die qq(memfd_create: $!\\n) if $fd<0;open(my $f,q(>&=),$fd)||die \
         $!;\
         my $left={size};while($left>0){{my $got=sysread(STDIN,my $b,$left<65536?$left:65536);die qq(cut off\\n) \
         unless $got;my $at=0;while($at<$got){{$at+=syswrite($f,$b,$got-$at,$at)||die $!}}$left-=$got}}\
         exec(qq(/proc/self/fd/$fd),q(serve))||die qq(exec: $!\\n)"
    );
    // The exit code of a program that a signal has ended.
    let killed = "R=$?;if test $R -gt 128&&test $R -lt 193;then exit $R;fi";
    format!("perl -e '{program}';{killed};echo \"$M failed\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_is_small_and_needs_no_quotes() {
        let script = script("0123456789abcdef0123456789abcdef", &"f".repeat(64));
        assert!(script.len() <= 2048, "{} bytes", script.len());
        assert!(!script.contains(['\'', '\\', '!', '\n']), "{script}");
    }

    #[test]
    fn first_line_is_parsed() {
        let found = HostReport::parse("new 1000 Linux x86_64").unwrap();
        assert_eq!((found.cached, found.uid.as_str(), found.machine.as_str()), (Cached::No, "1000", "x86_64"));
        assert_eq!(HostReport::parse("failed"), None);
        assert_eq!(HostReport::parse("new 1000"), None);
    }
}
