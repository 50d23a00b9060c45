use kilter_model::{Difference, ResourceRef};
use serde_json::json;

use super::integrity::{Integrity, IntegrityError, Maker, protect, verify};
use super::keys::{PrivateKey, PublicKey};
use super::*;

fn key() -> (tempfile::TempDir, SealingKey) {
    let state = tempfile::tempdir().unwrap();
    let key = SealingKey::made(state.path()).unwrap();
    (state, key)
}

fn signer() -> PrivateKey {
    let text = "-----BEGIN PRIVATE \
        KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ4+p+oFMvjJ+HuLPKIcqcvpRhIO81ZjP6USeAw/XJEc\n-----END PRIVATE KEY-----\n";
    PrivateKey::parse(text).unwrap()
}

fn document() -> Json {
    json!({
        "kilter_plan": 4,
        "steps": [{ "resource": "exec[a]", "status": "would_change", "differences": [{ "message": "ö\u{fffd}\n" }] }],
        "sources": [{ "name": "m.yaml", "text": "resources:\n  exec[a]: { command: \"rm -r /tmp/a\" }\n" }],
        "facts": { "load": 0.1 },
        "vars": {}
    })
}

/// Returns the plan once with each of its bits flipped, as text.
fn flipped(plan: &str) -> impl Iterator<Item = (usize, String)> {
    (0..plan.len() * 8).filter_map(|bit| {
        let mut bytes = plan.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        // The others are no valid text, and so no plans.
        Some((bit, String::from_utf8(bytes).ok()?))
    })
}

#[test]
fn each_flipped_bit_of_a_plan_is_refused() {
    let (_state, key) = key();
    for signer in [None, Some(&signer())] {
        let plan = protect(&document(), &key, signer);
        let whole = verify(&plan, Some(&key)).unwrap();
        assert_eq!((whole.maker, whole.signed_by), (Maker::Here, signer.map(PrivateKey::public)));
        let accepted: Vec<usize> = flipped(&plan)
            .filter(|(_, flipped)| {
                // A digest with an unknown key cannot be verified: such a plan is refused unless its signature is
                // valid.
                let is_believed = |found: &Integrity| found.maker == Maker::Here || found.signed_by.is_some();
                verify(flipped, Some(&key)).is_ok_and(|found| is_believed(&found))
            })
            .map(|(bit, _)| bit)
            .collect();
        assert_eq!(accepted, [0; 0], "of {} bits", plan.len() * 8);
    }
}

#[test]
fn each_flipped_bit_of_a_signed_plan_is_refused_on_another_machine() {
    let ((_state, key), (_elsewhere, other)) = (key(), key());
    let signer = signer();
    let plan = protect(&document(), &key, Some(&signer));
    for key in [None, Some(&other)] {
        let found = verify(&plan, key).unwrap();
        assert_eq!((found.maker, found.signed_by), (Maker::Elsewhere, Some(signer.public())));
        let accepted: Vec<usize> =
            flipped(&plan).filter(|(_, plan)| verify(plan, key).is_ok()).map(|(bit, _)| bit).collect();
        assert_eq!(accepted, [0; 0]);
    }
    let unsigned = protect(&document(), &key, None);
    let found = verify(&unsigned, Some(&other)).unwrap();
    assert_eq!((found.maker, found.signed_by), (Maker::Elsewhere, None), "nobody can tell whether it was changed");
}

#[test]
fn truncated_or_extended_plan_is_refused() {
    let (_state, key) = key();
    for signer in [None, Some(&signer())] {
        let plan = protect(&document(), &key, signer);
        for end in (0..plan.len()).filter(|end| plan.is_char_boundary(*end)) {
            assert!(verify(&plan[..end], Some(&key)).is_err(), "{end}");
        }
        for more in [" ", "\n", "}", "{}", &plan] {
            let longer = format!("{plan}{more}");
            assert!(verify(&longer, Some(&key)).is_err(), "{more}");
        }
        let formatted = serde_json::from_str::<Json>(&plan).unwrap().to_string();
        assert_eq!(verify(&formatted, Some(&key)).unwrap_err(), IntegrityError::Missing);
    }
}

#[test]
fn signature_is_bound_to_its_plan_and_cannot_be_replaced() {
    let (_state, key) = key();
    let signer = signer();
    let (one, mut other) = (document(), document());
    other["vars"] = json!({ "a": "b" });
    let (one, other) = (protect(&one, &key, Some(&signer)), protect(&other, &key, Some(&signer)));
    let signature = |plan: &str| plan.split_once("\"signature\": ").unwrap().1.to_owned();
    assert_ne!(signature(&one), signature(&other));
    let swapped = one.replace(&signature(&one), &signature(&other));
    assert_eq!(verify(&swapped, Some(&key)).unwrap_err(), IntegrityError::Signature);
}

fn parsed(text: &str) -> Result<String, &'static str> {
    PrivateKey::parse(text).map(|key| key.public().text())
}

#[test]
fn private_keys_of_openssl_and_openssh_are_read() {
    let openssl = "-----BEGIN PRIVATE \
        KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ4+p+oFMvjJ+HuLPKIcqcvpRhIO81ZjP6USeAw/XJEc\n-----END PRIVATE KEY-----\n";
    assert_eq!(parsed(openssl).unwrap(), "MCowBQYDK2VwAyEA7Z/ONX4y+WsPZ+9AMMvNDoGyUqsQMW9AllU6SlI5NZE=");
    let openssh = "-----BEGIN OPENSSH PRIVATE KEY-----\n\
        b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n\
        QyNTUxOQAAACC2YxyouYrbkKQtUJsuS/17/FbTdXRHM7MjBhwZ7Qf4sgAAAIhGCZfyRgmX\n\
        8gAAAAtzc2gtZWQyNTUxOQAAACC2YxyouYrbkKQtUJsuS/17/FbTdXRHM7MjBhwZ7Qf4sg\n\
        AAAEAUsiV6IVy5NuL6rD9LInVS7gska4p4nGGlG5jVZjBp6rZjHKi5ituQpC1Qmy5L/Xv8\n\
        VtN1dEczsyMGHBntB/iyAAAAAm1lAQID\n\
        -----END OPENSSH PRIVATE KEY-----\n";
    let public = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAILZjHKi5ituQpC1Qmy5L/Xv8VtN1dEczsyMGHBntB/iy me\n";
    assert_eq!(parsed(openssh).unwrap(), PublicKey::of(public).unwrap().text());
    for wrong in [
        "",
        "x",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        public,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----",
    ] {
        assert!(parsed(wrong).is_err(), "{wrong}");
    }
    assert!(PublicKey::of(openssl).unwrap_err().contains("is a private key"));
    for wrong in ["", "ssh-rsa AAAA", "ssh-ed25519 AAAA", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"]
    {
        assert!(PublicKey::of(wrong).is_err(), "{wrong}");
    }
}

fn reported(differences: Vec<Difference>, status: Status) -> Vec<ResourceReport> {
    vec![ResourceReport {
        reference: ResourceRef::new("file", "/a"),
        span: kilter_model::Span::new(kilter_model::SourceId(0), 0, 0),
        status,
        differences,
        told: Vec::new(),
        unplanned_changes: Vec::new(),
        is_unsettled: false,
        unknown: Vec::new(),
        failure: None,
        because_of: None,
        refreshed: false,
        refresh_not_needed: Vec::new(),
        refreshed_by: Vec::new(),
        notes: Vec::new(),
        document: None,
        is_contested: false,
        changed_by: None,
        drift: None,
        basis: None,
        found: None,
        is_left: false,
        deviation: None,
        tries: 0,
        processes: kilter_provider::ProcessList::default(),
        duration: std::time::Duration::ZERO,
    }]
}

/// Returns how `now` deviates from a plan in which `then` was found.
fn drift_of(then: Vec<Difference>, now: &[Difference]) -> Option<String> {
    let (_state, key) = key();
    let steps = Plan::steps(&reported(then, Status::WouldChange), &key);
    let plan = Plan::read(&steps, SecretDigests::Keyed(Box::new(key))).unwrap();
    let reference = ResourceRef::new("file", "/a");
    plan.drift(&reference, plan.step(&reference).unwrap(), now, &[], None).map(|drift| drift.to_string())
}

#[test]
fn drift_is_reported_with_both_values() {
    let mode = |is: &str, should: &str| Difference::new("mode", is.into(), should.into());
    assert_eq!(drift_of(vec![mode("0600", "0644")], &[mode("0600", "0644").showing("+a")]), None);
    let said = |then, now: &[Difference]| drift_of(then, now).unwrap();
    assert_eq!(
        said(vec![mode("0600", "0644")], &[mode("0666", "0644")]),
        "`mode` was 0600 when the plan was made, and is 0666"
    );
    assert_eq!(
        said(vec![mode("0600", "0644")], &[mode("0600", "0755")]),
        "`mode` was planned to become 0644, and would become 0755"
    );
    let owner = Difference::new("owner", "eve".into(), "root".into());
    assert_eq!(
        said(vec![mode("0600", "0644")], &[mode("0600", "0644"), owner.clone()]),
        "`owner` differs now and did not when the plan was made: eve → root"
    );
    assert_eq!(
        said(vec![mode("0600", "0644"), owner], &[mode("0600", "0644")]),
        "`owner` was eve when the plan was made, and needs no change now"
    );
    let below = |entry: &str| Difference::new("ensure", "file".into(), "absent".into()).of_entry(entry);
    assert_eq!(
        said(vec![below("x")], &[below("x"), below("y")]),
        "`ensure` of y differs now and did not when the plan was made: file → absent"
    );
    let saying = |message: &str| Difference::new("command", Value::Undef, Value::Undef).saying(message);
    assert_eq!(said(vec![saying("one")], &[saying("other")]), "`command` was planned as “one”, and is now “other”");
}

#[test]
fn sensitive_values_are_compared_and_nowhere_in_the_steps() {
    let (_state, key) = key();
    let secret = |text: &str| Value::sensitive(text.into());
    let content = |is: &str, should: &str| vec![Difference::new("content", secret(is), secret(should))];
    let steps = Plan::steps(&reported(content("hunter1", "hunter2"), Status::WouldChange), &key);
    let text = Json::from(steps.clone()).to_string();
    assert!(!text.contains("hunter") && text.contains("is_digest") && text.contains("should_digest"), "{text}");
    let reference = ResourceRef::new("file", "/a");
    let drift = |secrets: SecretDigests, now: &[Difference]| {
        let plan = Plan::read(&steps, secrets).unwrap();
        plan.drift(&reference, plan.step(&reference).unwrap(), now, &[], None)
    };
    let again = |state: &tempfile::TempDir| SecretDigests::Keyed(Box::new(SealingKey::of(state.path()).unwrap()));
    assert_eq!(drift(again(&_state), &content("hunter1", "hunter2")), None);
    for now in [content("hunter3", "hunter2"), content("hunter1", "hunter3")] {
        let said = drift(again(&_state), &now).unwrap();
        assert_eq!(said, "`content` has another sensitive value than when the plan was made");
    }
    let said = drift(SecretDigests::Foreign, &content("hunter1", "hunter2")).unwrap();
    assert!(said.contains("only the machine where the plan was made"), "{said}");
    assert_eq!(drift(SecretDigests::Replayed, &content("hunter1", "hunter2")), None);
}

#[test]
fn object_from_a_package_is_permitted_only_with_planned_values() {
    let (state, key) = key();
    let difference = |attribute: &str, is: Value, should: Value| Difference::new(attribute, is, should);
    let secret = |text: &str| Value::sensitive(text.into());
    let mut report = reported(
        vec![
            difference("ensure", "absent".into(), "file".into()),
            difference("content", Value::Undef, secret("hunter2")),
            difference("mode", Value::Undef, "0600".into()),
        ],
        Status::WouldChange,
    );
    report[0].unknown = vec![("ensure".into(), "after package[p]".into())];
    let steps = Plan::steps(&report, &key);
    let reference = ResourceRef::new("file", "/a");
    let permits_with = |secrets: SecretDigests, now: Difference| {
        let plan = Plan::read(&steps, secrets).unwrap();
        plan.permits_brought(&reference, plan.step(&reference).unwrap(), &[now])
    };
    let permits = |now: Difference| {
        let key = SealingKey::of(state.path()).unwrap();
        permits_with(SecretDigests::Keyed(Box::new(key)), now)
    };
    let content = |should: &str| difference("content", secret("default"), secret(should));
    assert!(permits(content("hunter2")) && !permits(content("hunter3")));
    assert!(!permits_with(SecretDigests::Foreign, content("hunter2")));
    let mode = |should: &str| difference("mode", "0644".into(), should.into());
    assert!(permits(mode("0600")) && !permits(mode("0666")));
    assert!(!permits(mode("0600").of_entry("below")));
    assert!(!permits(difference("ensure", "directory".into(), "file".into())));
}

/// Returns how `now` deviates from an unknown step that showed `then` and found a file, or nothing if `found` is
/// `absent`.
fn known_drift_of(unknown: &[&str], found: &str, then: &[Difference], now: &[Difference]) -> Option<String> {
    let (_state, key) = key();
    let mut report = reported(then.to_vec(), Status::Unknown);
    report[0].unknown = unknown.iter().map(|name| ((*name).into(), "after exec[x]".into())).collect();
    report[0].found = Some(found.into());
    let plan = Plan::read(&Plan::steps(&report, &key), SecretDigests::Keyed(Box::new(key))).unwrap();
    let reference = ResourceRef::new("file", "/a");
    plan.known_drift(&reference, plan.step(&reference).unwrap(), now, None).map(|drift| drift.to_string())
}

#[test]
fn known_attributes_of_an_unknown_step_are_compared() {
    let difference = |attribute: &str, is: &str, should: &str| Difference::new(attribute, is.into(), should.into());
    let (mode, content) = (difference("mode", "0600", "0644"), difference("content", "a", "b"));
    let drift = |then: &[Difference], now: &[Difference]| known_drift_of(&["content"], "file", then, now);
    let then = [mode.clone()];
    assert_eq!(drift(&then, &then), None);
    assert_eq!(drift(&then, &[mode.clone(), content.clone()]), None, "only the unknown attribute differs as well");
    for (now, why) in [
        (vec![difference("mode", "0666", "0644")], "`mode` was 0600 when the plan was made, and is 0666"),
        (vec![difference("mode", "0600", "0755")], "`mode` was planned to become 0644, and would become 0755"),
        (vec![content], "`mode` was 0600 when the plan was made, and needs no change now"),
        (
            vec![mode.clone(), difference("owner", "eve", "root")],
            "`owner` differs now and did not when the plan was made: eve → root",
        ),
        (
            vec![mode.clone(), difference("ensure", "link", "file")],
            "`ensure` differs now and did not when the plan was made: link → file",
        ),
        (vec![mode.clone().saying("other")], "`mode` was planned as “0600 → 0644”, and is now “other”"),
    ] {
        assert_eq!(drift(&then, &now).as_deref(), Some(why));
    }
    let secret = |text: &str| Difference::new("password", Value::Undef, Value::sensitive(text.into()));
    assert_eq!(drift(&[secret("one")], &[secret("one")]), None);
    let why = "`password` has another sensitive value than when the plan was made";
    assert_eq!(drift(&[secret("one")], &[secret("two")]).as_deref(), Some(why));
}

#[test]
fn existence_of_an_unknown_step_is_compared_unless_it_is_unknown() {
    let difference = |attribute: &str, is: &str, should: &str| Difference::new(attribute, is.into(), should.into());
    let (creation, mode) = (difference("ensure", "absent", "file"), difference("mode", "0600", "0644"));
    let now = std::slice::from_ref(&mode);
    let why = "it was absent when the plan was made, and exists now";
    assert_eq!(known_drift_of(&["content"], "absent", &[], now).as_deref(), Some(why));
    let entry = creation.clone().of_entry("x");
    assert_eq!(known_drift_of(&["content"], "absent", &[], &[entry]).as_deref(), Some(why), "an entry is missing");
    assert_eq!(known_drift_of(&["content"], "absent", &[], std::slice::from_ref(&creation)), None);
    let why = "`ensure` differs now and did not when the plan was made: absent → file";
    assert_eq!(known_drift_of(&["content"], "file", &[], &[creation]).as_deref(), Some(why));
    for unknown in [&["ensure"][..], &[""], &[]] {
        assert_eq!(known_drift_of(unknown, "absent", &[], now), None, "{unknown:?}");
    }
}

#[test]
fn entries_of_an_unknown_step_are_compared_if_only_the_owner_is_unknown() {
    let entry =
        |attribute: &str, is: &str, should: &str| Difference::new(attribute, is.into(), should.into()).of_entry("x");
    let of_owner = |then: &[Difference], now: &[Difference]| known_drift_of(&["mode", "owner"], "directory", then, now);
    let of_content = |now: &[Difference]| known_drift_of(&["mode", "content"], "directory", &[], now);
    for attribute in ["ensure", "content", "target"] {
        let (planned, now) = ([entry(attribute, "a", "b")], [entry(attribute, "c", "b")]);
        assert_eq!(of_owner(&planned, &planned), None);
        let why = format!("`{attribute}` of x was a when the plan was made, and is c");
        assert_eq!(of_owner(&planned, &now), Some(why));
        assert!(of_owner(&[], &now).is_some() && of_owner(&planned, &[]).is_some(), "{attribute}");
        assert_eq!(of_content(&now), None);
    }
    for attribute in ["owner", "group", "mode", "acl", "mask"] {
        assert_eq!(of_owner(&[], &[entry(attribute, "a", "b")]), None);
    }
    let possible = entry("ensure", "file", "absent").saying("may be removed");
    assert_eq!(known_drift_of(&["mode", "content"], "directory", &[possible], &[]), None);
}
