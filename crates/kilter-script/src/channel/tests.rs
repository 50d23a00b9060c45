use super::*;

/// The example message of mold's documentation.
const TEXT: &[u8] = b"57:[\"jim\", \"stdout\", {\"line\": \"This is a line of stdout\\n\"}],";

fn frames(longest: usize, parts: &[&[u8]]) -> Vec<Frame<Message>> {
    let mut frames = Vec::new();
    let mut channel = Channel::with_longest(longest);
    parts.iter().for_each(|part| channel.feed(part, &mut |frame| frames.push(frame)));
    channel.end(&mut |frame| frames.push(frame));
    frames
}

fn all(bytes: &[u8]) -> Vec<Frame<Message>> {
    frames(LONGEST_MESSAGE, &[bytes])
}

fn messages(frames: &[Frame<Message>]) -> Vec<Message> {
    let message = |frame: &Frame<Message>| match frame {
        Frame::Message(message) => Some(message.clone()),
        Frame::Damage(_) => None,
    };
    frames.iter().filter_map(message).collect()
}

fn one(text: &str) -> Message {
    Message::read(text.as_bytes()).unwrap()
}

#[test]
fn specification_netstring_round_trips() {
    let frames = all(TEXT);
    let [Frame::Message(message)] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!((message.name.as_deref(), message.key_text().as_str()), (Some("jim"), "stdout"));
    let bytes = b"This is a line of stdout\n".to_vec();
    assert_eq!(message.event(), ChannelEvent::Stream { descriptor: 1, bytes });
    assert_eq!(message.to_netstring(), TEXT);
    let written = Message::part("stdout", b"This is a line of stdout\n").of_child("jim");
    assert_eq!(written.to_netstring(), TEXT);
}

#[test]
fn specified_keys_are_parsed() {
    let event = |text: &str| one(text).event();
    assert_eq!(
        event(r#"["jim", "stdout", {"line": "this is a line\n"}]"#),
        ChannelEvent::Stream { descriptor: 1, bytes: b"this is a line\n".to_vec() }
    );
    for encoding in ["b64", "base64"] {
        assert_eq!(
            event(&format!(r#"["joe", "stderr", {{"line": "AAH/\n", "encoding": "{encoding}"}}]"#)),
            ChannelEvent::Stream { descriptor: 2, bytes: vec![0, 1, 255] }
        );
    }
    let text = r#"["newchild", "spawn", {"path": "/tmp/foo", "env": {"FOO": "something", "USER": "joe"},
        "args": ["cat", "afile"], "user": "joe", "group": "joe"}]"#;
    let spawn = Spawn {
        path: Some("/tmp/foo".into()),
        args: vec!["cat".into(), "afile".into()],
        user: Some("joe".into()),
        group: Some("joe".into()),
    };
    assert_eq!(event(text), ChannelEvent::Spawn(spawn));
    assert_eq!(one(text).data["env"]["FOO"], "something");
    assert_eq!(event(r#"["newchild", "exitcode", 3]"#), ChannelEvent::ExitCode(3));
}

#[test]
fn keys_of_the_reference_implementation_are_parsed() {
    let event = |text: &str| one(text).event();
    assert_eq!(event(r#"[null, 0, {"line": "x"}]"#), ChannelEvent::Stream { descriptor: 0, bytes: b"x".to_vec() });
    assert_eq!(
        event(r#"[null, "exit", {"code": null, "signal": 9}]"#),
        ChannelEvent::Exit { code: None, signal: Some(9) }
    );
    let text = r#"[null, "spawn", {"executable": "/bin/cat", "path": "/tmp", "uid": 7, "gid": 8, "usePTY": true}]"#;
    let ChannelEvent::Spawn(spawn) = event(text) else { panic!() };
    assert_eq!((spawn.path.as_deref(), spawn.user.as_deref()), (Some("/bin/cat"), Some("7")));
}

#[test]
fn unknown_keys_and_data_of_another_form_are_kept_as_they_are() {
    for text in [
        r#"["a", "step", {"at": [1, 2.5, null]}]"#,
        r#"[null, 7, "x"]"#,
        r#"["a", "stdout", {"line": 5}]"#,
        r#"["a", "stdout", {"line": "%%%", "encoding": "base64"}]"#,
        r#"["a", "stdout", {"line": "x", "encoding": "rot13"}]"#,
        r#"["a", "exitcode", "three"]"#,
        r#"["a", "spawn", []]"#,
    ] {
        assert_eq!(one(text).event(), ChannelEvent::Other, "{text}");
        let netstring = one(text).to_netstring();
        assert_eq!(all(&netstring), [Frame::Message(one(text))]);
        assert_eq!(netstring, netstring::encode(text.as_bytes()), "nothing is written in another way");
    }
}

#[test]
fn binary_data_round_trips_as_base64() {
    for bytes in [&b"\xff\x00\x80"[..], b"", "\u{e9}\n".as_bytes(), b"a\0b"] {
        let message = Message::part("stderr", bytes);
        assert_eq!(
            messages(&all(&message.to_netstring()))[0].event(),
            ChannelEvent::Stream { descriptor: 2, bytes: bytes.into() }
        );
    }
    assert_eq!(Message::part("stderr", b"\xff").data["encoding"], "base64");
}

#[test]
fn the_names_of_nested_children_are_joined() {
    let message = Message::new("exitcode", json!(0));
    assert_eq!(message.clone().of_child("child").name.as_deref(), Some("child"));
    assert_eq!(message.of_child("child").of_child("parent").name.as_deref(), Some("parent.child"));
}

#[test]
fn malformed_tuple_loses_only_itself() {
    let deep = format!("[null, \"x\", {}{}]", "[".repeat(5000), "]".repeat(5000));
    for content in [
        "",
        "5",
        "[]",
        "[null, \"x\"]",
        "[5, \"x\", 1]",
        "[null, null, 1]",
        "[null, -1, 1]",
        "[null, \"x\", 1, 2]",
        "[null, \"x\", 1",
        "[null, \"x\", 1]]",
        deep.as_str(),
    ] {
        let bytes = [TEXT, &netstring::encode(content.as_bytes()), TEXT].concat();
        let frames = all(&bytes);
        assert_eq!(messages(&frames).len(), 2, "{content:.40}");
        let skipped: usize = frames.iter().map(|frame| if let Frame::Damage(d) = frame { d.bytes } else { 0 }).sum();
        assert_eq!(skipped, netstring::encode(content.as_bytes()).len(), "{content:.40}");
    }
    let bad = [&b"[null, \"x\", \"\xff\"]"[..], b"[null, \"x\", \"a\0b\"]"];
    for content in bad {
        assert_eq!(messages(&all(&[&netstring::encode(content), TEXT].concat())).len(), 1);
    }
}

#[test]
fn a_wrong_length_loses_one_message() {
    for length in ["56", "58", "5", "157", "1000", "99999999999999999999", "057", "-57", "", "x"] {
        let damaged = [length.as_bytes(), &TEXT[2..]].concat();
        let frames = all(&[TEXT, &damaged, TEXT, TEXT].concat());
        // An extra digit before a complete netstring loses only that digit.
        let expected = if matches!(length, "157" | "057" | "-57") { 4 } else { 3 };
        assert_eq!(messages(&frames).len(), expected, "{length}");
        assert!(frames.iter().any(|frame| matches!(frame, Frame::Damage(_))), "{length}");
    }
}

#[test]
fn white_space_between_messages_is_accepted_and_text_is_damage() {
    assert_eq!(all(&[TEXT, b"\n \n", TEXT, b"\n"].concat()).len(), 2);
    let frames = all(&[b"hello 12:30\n", TEXT].concat());
    let [Frame::Damage(damage), Frame::Message(_)] = frames.as_slice() else { panic!("{frames:?}") };
    assert_eq!(damage.to_string(), "12 bytes that belong to no message were skipped: `hello 12:30`");
}

#[test]
fn too_long_message_is_skipped_in_bounded_memory() {
    let long = Message::new("x", json!("y".repeat(500))).to_netstring();
    let mut channel = Channel::with_longest(100);
    let mut seen = Vec::new();
    for byte in [TEXT, &long, TEXT].concat() {
        channel.feed(&[byte], &mut |frame| seen.push(frame));
        assert!(channel.held() <= 105);
    }
    channel.end(&mut |frame| seen.push(frame));
    assert_eq!(messages(&seen).len(), 2);
    let flood = vec![b'7'; 300_000];
    let frames = frames(LONGEST_MESSAGE, &[&flood, TEXT]);
    assert!(frames.len() > 4 && messages(&frames).len() == 1, "an endless stretch is told piece by piece");
}

#[test]
fn large_message_is_one_entry_whole_or_too_long() {
    let large = Message::part("log", &vec![b'x'; 3 << 20]);
    let frames = all(&[TEXT, &large.to_netstring(), TEXT].concat());
    assert_eq!((frames.len(), messages(&frames).get(1)), (3, Some(&large)));
    let too_long = Message::part("log", &vec![b'x'; LONGEST_MESSAGE]).to_netstring();
    let frames = all(&[TEXT, &too_long, TEXT].concat());
    let [Frame::Message(_), Frame::Damage(damage), Frame::Message(_)] = frames.as_slice() else {
        panic!("{}", frames.len())
    };
    assert_eq!(damage.bytes, too_long.len());
    // Many small values take more memory than their text.
    let crowd = Message::new("log", json!(vec![1; 1 << 20])).to_netstring();
    assert!(messages(&all(&crowd)).is_empty());
}

/// Generates random messages.
fn stream(random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let data = |random: &mut fastrand::Rng| match random.u8(0..5) {
        0 => json!(random.i64(..)),
        1 => json!({ "line": "9:[1,2],\"\\ \u{e9}\n" }),
        2 => json!([null, true, { "a": "10:[null, 1]," }]),
        3 => Message::part("x", &[random.u8(..), 255]).data,
        _ => json!("57:[]"),
    };
    let key = |random: &mut fastrand::Rng| ["stdout", "1", "step", "57:"][random.usize(0..4)];
    let message = |random: &mut fastrand::Rng| {
        let message = Message::new(key(random), data(random));
        if random.bool() { message.of_child("a.b") } else { message }
    };
    (0..random.usize(1..8)).map(|_| message(random).to_netstring()).collect()
}

#[test]
fn chunk_boundaries_do_not_affect_messages() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = stream(&mut random).concat();
        if seed % 2 == 1 {
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = [random.u8(..), b'[', b'9', b':', b','][random.usize(0..5)];
            }
        }
        let whole = all(&bytes);
        let (mut rest, mut parts) = (bytes.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (part, after) = rest.split_at(random.usize(1..=rest.len().min(20)));
            parts.push(part);
            rest = after;
        }
        assert_eq!(frames(LONGEST_MESSAGE, &parts), whole, "seed {seed}");
    }
}

#[test]
fn damaged_message_loses_only_itself() {
    for seed in 0..1000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let sent = stream(&mut random);
        let hit = random.usize(..sent.len());
        let mut damaged = sent[hit].clone();
        match random.u8(0..4) {
            0 => damaged.truncate(random.usize(..damaged.len())),
            1 => drop(damaged.remove(random.usize(..damaged.len()))),
            2 => damaged.insert(random.usize(..damaged.len()), random.u8(..)),
            _ => {
                let at = random.usize(..damaged.len());
                damaged[at] ^= 1 << random.u8(0..8);
            }
        }
        let bytes: Vec<u8> = sent
            .iter()
            .enumerate()
            .flat_map(|(at, one)| if at == hit { damaged.clone() } else { one.clone() })
            .collect();
        let got = messages(&all(&bytes));
        let mut left = got.iter();
        for (at, one) in sent.iter().enumerate().filter(|(at, _)| *at != hit) {
            let message = &messages(&all(one))[0];
            assert!(left.any(|got| got == message), "seed {seed}: message {at} is lost");
        }
    }
}

#[test]
fn a_log_is_read_back() {
    let mut frames = Vec::new();
    let log = [TEXT, b"garbage", TEXT].concat();
    let mut keep = |more| {
        frames.extend::<Vec<_>>(more);
        ControlFlow::Continue(())
    };
    read_log(log.as_slice(), &mut keep).unwrap();
    assert_eq!((frames.len(), messages(&frames).len()), (3, 2));
    let Frame::Damage(damage) = &frames[1] else { panic!("{frames:?}") };
    assert_eq!((damage.at, damage.bytes), (TEXT.len() as u64, 7));
    let mut parts = 0;
    let long = TEXT.repeat(10_000);
    let mut stop = |_| {
        parts += 1;
        ControlFlow::Break(())
    };
    read_log(long.as_slice(), &mut stop).unwrap();
    assert_eq!(parts, 1, "who has seen enough is given no more");
}
