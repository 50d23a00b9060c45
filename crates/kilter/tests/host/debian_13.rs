//! Types on Debian 13, where it differs from Debian 12.

use kilter_testkit::hosts::sandboxed_on;

use crate::host_with_kilter;

/// Applies a resource twice. The second pass must find nothing to do.
const APPLY: &str = r#"
applied() {
    printf 'resources:\n  %s\n' "$1" >/root/site.yaml
    kilter apply /root/site.yaml
    kilter plan /root/site.yaml
}
"#;

#[test]
fn default_locale_zone_and_repository_converge() {
    sandboxed_on("trixie", "debian_13::default_locale_zone_and_repository_converge", || {
        let host = host_with_kilter("h");
        let run = |script: &str| {
            let output = host.run(&["bash", "-euc", &format!("{APPLY}{script}")]);
            format!("{}{}{}", output.code, output.stdout, output.stderr)
        };
        // The host has no package `locales`. A built-in locale needs only the program's name.
        let locale = run("install -m 755 /bin/true /usr/sbin/locale-gen
            applied 'locale[C.UTF-8]: {default: true}'
            readlink /etc/default/locale
            cat /etc/locale.conf");
        assert!(locale.starts_with('0') && locale.ends_with("../locale.conf\nLANG=C.UTF-8\n"), "{locale}");

        let zone = run("applied 'timezone[America/New_York]: {}'; readlink /etc/localtime");
        assert!(zone.starts_with('0') && zone.contains("/usr/share/zoneinfo/America/New_York"), "{zone}");
        let former = run("applied 'timezone[US/Eastern]: {}'");
        let hint = "`US/Eastern` is a former name of `America/New_York`: write that name, or install the package \
                    tzdata-legacy";
        assert!(former.contains(hint), "{former}");

        let repository = run(
            "echo 'deb [signed-by=/etc/apt/keyrings/old.asc] https://a.example ./' >/etc/apt/sources.list.d/old.list
            touch /etc/apt/keyrings/old.asc
            applied 'apt_repository[old]: {ensure: absent}'
            ls -A /etc/apt/sources.list.d /etc/apt/keyrings",
        );
        assert!(repository.starts_with('0') && !repository.contains("old.list"), "{repository}");
        assert!(!repository.contains("old.asc"), "{repository}");
    });
}
